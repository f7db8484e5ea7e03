// Finds gradients that each rank computed from its own rows of the activations only, so that they must be summed. Pure; thread-safe.
#pragma once

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns true if ops of the backward pass computed a gradient from the rows of this rank only. Between those ops and the update there may
// be sums over micro-batches and over ranks that read other batches. Errors: kInternal if such a sum adds a gradient computed from the rows
// of this rank to one that was computed from all rows.
bool is_part_of_rows(const Graph& graph, ValueId gradient);

}  // namespace plimsoll
