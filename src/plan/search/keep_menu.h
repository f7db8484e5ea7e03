// What the blocks of a model may keep for the backward pass, measured by planning: for every set of kept
// values of a block that no other set beats, its bytes and the time of what it computes again. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/keep_options.h"

namespace plimsoll {

// A value of a block by its place: which forward op of the block, which of its outputs. The same in every
// block of one kind, whatever the values are called.
struct ValuePlace {
  size_t op = 0;
  size_t output = 0;
  auto operator<=>(const ValuePlace&) const = default;
};

struct KeepMenu {
  std::vector<KeepOption> options = {};         // fastest first; none where the model has no blocks
  std::vector<std::set<ValuePlace>> kept = {};  // of each option
};

// The forward ops of each block of a plan's training program, in the order in which blocks run.
struct BlockOps {
  std::string name = {};
  std::vector<uint32_t> ops = {};
};
std::vector<BlockOps> forward_blocks(const Graph& graph);

// Sets of at most so many kinds of values are tried; of further ones, the smallest, all are kept.
inline constexpr size_t kMostKinds = 8;

// The menu of a block in the middle of the model, from plans of the same request with three blocks. Cost: at
// most 2^kMostKinds small plans, about a third of a second for BERT.
KeepMenu keep_menu(const PlanRequest& request);

// The values of an option by their names in a graph.
std::set<std::string, std::less<>> names_of(const Graph& graph, const BlockOps& block,
                                            const std::set<ValuePlace>& places);

}  // namespace plimsoll
