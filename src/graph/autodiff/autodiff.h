// Reverse-mode differentiation of a graph: appends backward ops to a forward graph. It does not depend on any
// optimizer or on the list of ops: each op builds its own gradient (OpSchema::gradient). Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Appends the backward segment, which computes the gradients of the loss with respect to the values in `wanted`. Returns them in the
// order of `wanted` and marks them as parameter gradients; the result is kNoValue for a value on which the loss does not depend. If a
// value is used several times, the terms of its gradient are added one after another as the backward pass computes them, in fp32 or
// wider. The gradient of the loss itself is 1 or, if given, the value `seed`, by which all gradients are then multiplied; it has the
// type of the loss. Requires: `loss` has one element. Errors: kInternal if an op between the wanted values and the loss has no gradient.
std::vector<ValueId> add_backward(Graph& graph, ValueId loss, std::span<const ValueId> wanted,
                                  ValueId seed = kNoValue);

// A value at which a backward pass begins, and the gradient of this value, which has the same type.
struct BackwardSeed {
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};
// Appends the backward segment of a graph that does not compute the loss (a pipeline stage), given the gradients of some of its values.
// Returns and marks the gradients of the values in `wanted`. Errors: kInternal if an op between them and the given values has no gradient.
std::vector<ValueId> add_backward(Graph& graph, std::span<const BackwardSeed> seeds,
                                  std::span<const ValueId> wanted);

}  // namespace plimsoll
