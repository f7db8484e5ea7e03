// Finds the sets of values that the blocks of a model may keep for the backward pass, by planning: for every set on the Pareto front, the
// bytes of the kept values and the time of recomputing the others. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/recompute_solver.h"

namespace plimsoll {

// Identifies a value of a block by the number of its forward op within the block and the output of that op. This is the same in all blocks
// of one kind, whose values have different names.
struct ValuePlace {
  size_t op = 0;
  size_t output = 0;
  auto operator<=>(const ValuePlace&) const = default;
};

struct RecomputeOptions {
  std::vector<RecomputeOption> options = {};    // fastest first; empty if the model has no blocks
  std::vector<std::set<ValuePlace>> kept = {};  // the values that each option keeps
};

// The forward ops of one block of a training program.
struct BlockOps {
  std::string name = {};
  std::vector<uint32_t> ops = {};
};
// Returns the blocks in the order in which they run.
std::vector<BlockOps> forward_blocks(const Graph& graph);

// The largest number of kinds of values whose sets are tried. Values of further kinds, the smallest ones,
// are always kept.
inline constexpr size_t kMostKinds = 8;

// Returns the options of a block in the middle of the model, from plans of the same request with three
// blocks. Cost: at most 2^kMostKinds small plans, about a third of a second for BERT.
RecomputeOptions recompute_options(const PlanRequest& request);

// Returns the values of an option by their names in a graph.
std::set<std::string, std::less<>> names_of(const Graph& graph, const BlockOps& block,
                                            const std::set<ValuePlace>& places);

}  // namespace plimsoll
