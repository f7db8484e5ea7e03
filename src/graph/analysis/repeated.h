// Which ops of the backward segment compute values of the forward pass again. Pure; thread-safe.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// For every op, whether it stands in the backward segment and reads nothing that derives from the gradient of
// the loss. The first op of that segment makes this gradient and is none of them. Requires: the graph
// verifies. Cost: linear in operands.
std::vector<bool> find_repeated_ops(const Graph& graph);

}  // namespace plimsoll
