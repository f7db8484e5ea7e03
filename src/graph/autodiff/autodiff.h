// Reverse-mode differentiation, graph to graph: appends backward ops to a forward graph. It knows no
// optimizer, and no op by name: each op builds its own gradient (OpSchema::gradient). Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Appends the backward segment for d(loss)/d(wanted). Returns the gradients in the order of `wanted`,
// kNoValue where the loss does not depend on a value; they are marked as parameter gradients. Several uses of
// a value are summed in the order in which the backward pass meets them (fp32 or wider, one add each).
// What the pass starts from is 1, or the value `seed` of the loss's type: gradients are then that many times
// as large. Requires: `loss` has one element. Errors: kInternal where an op on the way has no gradient.
std::vector<ValueId> add_backward(Graph& graph, ValueId loss, std::span<const ValueId> wanted,
                                  ValueId seed = kNoValue);

}  // namespace plimsoll
