// Sequence-parallel ranks have different rows of the activations. Finds the gradients that each rank computed from its own rows only, which
// must be summed over the ranks. Pure; thread-safe.
#pragma once

#include "graph/ir/graph.h"

namespace plimsoll {

// Returns true if this gradient of a weight was computed from the rows of this rank only. The function also looks through sums over
// micro-batches and over ranks that read other batches. Errors: kInternal if such a sum has one term from the rows of this rank and another
// term from all rows.
bool is_part_of_rows(const Graph& graph, ValueId gradient);

}  // namespace plimsoll
