// What of the forward pass is kept for the backward pass, and what is computed again: the choice that the
// recompute pass obeys. Pure data; thread-safe. It decides nothing about memory: see plan/search/budget.h.
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
  kCheap,  // not kept is what an op says is cheap to compute again: GELU, scale and shift, dropout, biases
  kFull    // of each block only what it hands to the next is kept, and the statistics of the norm there
};
std::string_view recompute_policy_name(RecomputePolicy policy);
std::optional<RecomputePolicy> find_recompute_policy(std::string_view name);

struct RecomputeChoice {
  RecomputePolicy policy = RecomputePolicy::kCheap;
  // Blocks (graph/analysis/blocks.h) for which values were chosen one by one, instead of by the policy: the
  // names of the forward values that are kept. What ends a block is kept in any case; everything else that
  // the backward pass reads is computed again.
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> kept_of_block = {};
  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};

}  // namespace plimsoll
