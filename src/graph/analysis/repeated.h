// The ops of the backward segment that compute values of the forward pass again. Pure; thread-safe.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns true for every op of the backward segment that reads nothing that derives from the gradient of the loss.
// The first op of that segment makes this gradient and does not count. Requires: the graph verifies. Cost: linear in
// operands.
std::vector<bool> find_repeated_ops(const Graph& graph);

}  // namespace plimsoll
