// Finds sets of values that the blocks of a model may keep for the backward pass. It plans a small model with each set, and returns those
// sets that are Pareto-optimal in the bytes of the kept values and the time of recomputing all others. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/recompute_solver.h"

namespace plimsoll {

// Identifies a value of a block by the index of the op of the block's forward pass that computes it, and by the index of this op's output.
// The same pair identifies the corresponding value in all blocks of one kind, although its name differs.
struct ValuePlace {
  size_t op = 0;
  size_t output = 0;
  auto operator<=>(const ValuePlace&) const = default;
};

struct RecomputeOptions {
  // the ways to divide the values of a block into kept and recomputed ones, fastest first; empty if the model has no blocks
  std::vector<RecomputeOption> options = {};
  std::vector<std::set<ValuePlace>> kept = {};  // for each option, the values that it keeps
};

// The forward ops of one block of a training program.
struct BlockOps {
  std::string name = {};
  std::vector<uint32_t> ops = {};
};
// Returns the blocks in the order in which the forward pass runs them.
std::vector<BlockOps> forward_blocks(const Graph& graph);

// The largest number of kinds of values for which all combinations are tried. Values of further kinds, the smallest ones, are always
// kept.
inline constexpr size_t kMostKinds = 8;

// Returns the options for a block in the middle of the model. To find them, plans are made of the same request with a model of only three
// blocks. Cost: at most 2^kMostKinds small plans, about a third of a second for BERT.
RecomputeOptions recompute_options(const PlanRequest& request);

// Returns the values that an option keeps, by their names in a graph.
std::set<std::string, std::less<>> names_of(const Graph& graph, const BlockOps& block,
                                            const std::set<ValuePlace>& places);

}  // namespace plimsoll
