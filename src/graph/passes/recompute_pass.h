// The choice of what the backward pass computes again instead of keeping it, which the recompute pass obeys. Pure
// data; thread-safe. It does not decide about memory: see plan/search/budget.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace plimsoll {

enum class RecomputePolicy : uint8_t {
  kNone,   // every value that the backward pass reads is kept
  kCheap,  // values with a cheap recipe are not kept: GELU, scale and shift, dropout, biases
  kFull    // each block keeps only what it passes to the next one, and the statistics of the norm there
};
std::string_view recompute_policy_name(RecomputePolicy policy);
std::optional<RecomputePolicy> find_recompute_policy(std::string_view name);

struct RecomputeChoice {
  RecomputePolicy policy = RecomputePolicy::kCheap;
  // Blocks (graph/analysis/blocks.h) whose values were chosen one by one instead of by the policy: the names of the
  // forward values that they keep. The values that end a block are kept in any case; all others that the backward
  // pass reads are computed again.
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> kept_of_block = {};
  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};

}  // namespace plimsoll
