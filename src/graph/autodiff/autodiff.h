// Reverse-mode differentiation of a graph: appends backward ops to a forward graph. It knows no optimizer and no op
// by name: each op builds its own gradient (OpSchema::gradient). Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace plimsoll {

// Appends the backward segment for d(loss)/d(wanted). Returns the gradients in the order of `wanted`, or kNoValue for
// a value on which the loss does not depend, and marks them as parameter gradients. If a value is used several times,
// the terms are summed in the order in which the backward pass meets them (in fp32 or wider, one addition each). The
// gradient of the loss is 1, or the value `seed`, which has the type of the loss: all gradients are then scaled by
// it. Requires: `loss` has one element. Errors: kInternal if an op between the wanted values and the loss has no gradient.
std::vector<ValueId> add_backward(Graph& graph, ValueId loss, std::span<const ValueId> wanted,
                                  ValueId seed = kNoValue);

// A value at which a backward pass begins, and the gradient of this value, which has the same type.
struct BackwardSeed {
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};
// Appends the backward segment of a graph whose loss is computed elsewhere, from the gradients of some of its values. Returns and marks the
// gradients of the values in `wanted`. Errors: kInternal if an op between them and the given values has no gradient.
std::vector<ValueId> add_backward(Graph& graph, std::span<const BackwardSeed> seeds,
                                  std::span<const ValueId> wanted);

}  // namespace plimsoll
