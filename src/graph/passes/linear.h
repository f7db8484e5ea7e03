// What the passes ask that make one op of a linear layer and what stands behind it.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// The op that produces `id`, where that is a product without bias of rows with a weight, in the type of its
// operands, and has one reader alone. `readers` are those of find_readers().
std::optional<uint32_t> find_linear_with_one_reader(const Graph& graph,
                                                    const std::vector<std::vector<uint32_t>>& readers,
                                                    ValueId id);

// Takes ops out, and values that nobody reads any more. Requires: dead.size() == graph.ops().size().
void remove_ops(Graph& graph, const std::vector<bool>& dead);

}  // namespace plimsoll
