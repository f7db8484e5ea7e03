// Finds the sets of values that the blocks of a model should consider keeping for the backward pass. It plans a small model with each
// set, and returns the Pareto-optimal sets: with the bytes of the kept values and the time of recomputing the others. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/recompute_solver.h"

namespace plimsoll {

// Identifies a value of a block by the number of its forward op within the block and the number of the output of that op. The same key
// identifies the corresponding value in all blocks of one kind, although its name differs.
struct ValuePlace {
  size_t op = 0;
  size_t output = 0;
  auto operator<=>(const ValuePlace&) const = default;
};

struct RecomputeOptions {
  // the options of a block, fastest first; empty if the model has no blocks
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

// Returns the options for a block in the middle of the model. They are computed from plans of the same request with three blocks. Cost:
// at most 2^kMostKinds small plans, about a third of a second for BERT.
RecomputeOptions recompute_options(const PlanRequest& request);

// Returns the values that an option keeps, by their names in a graph.
std::set<std::string, std::less<>> names_of(const Graph& graph, const BlockOps& block,
                                            const std::set<ValuePlace>& places);

}  // namespace plimsoll
