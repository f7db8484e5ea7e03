#include "graph/passes/row_parts.h"

#include <algorithm>

#include "graph/ops/ops.h"

namespace plimsoll {

bool is_part_of_rows(const Graph& graph, ValueId id) {
  if (id == kNoValue || graph.value(id).producer == kNoOp) return false;
  const Op& op = graph.op(graph.value(id).producer);
  if (schema_of(op).is_communication()) {
    const auto at = std::ranges::find(op.outputs, id) - op.outputs.begin();
    return is_part_of_rows(graph, op.inputs[static_cast<size_t>(at)]);
  }
  const bool is_sum = op.def == &accumulate_op() || op.def == &add_op() || op.def == &cast_op();
  int parts = 0, wholes = 0;
  for (const ValueId input : op.inputs) {
    // The persistent buffer in which the gradients of micro-batches are added up has no producer. This buffer is skipped, because the
    // gradients that are added to it determine whether the sum was computed from the rows of this rank only.
    if (input == kNoValue || (is_sum && graph.value(input).producer == kNoOp)) continue;
    const bool part = is_sum ? is_part_of_rows(graph, input) : graph.value(input).type.shape.row_ranks() > 1;
    ++(part ? parts : wholes);
  }
  PLIMSOLL_CHECK(!is_sum || parts == 0 || wholes == 0,
                 "the gradient '{}' must not add up a gradient that this rank computed from its own rows and "
                 "one that it computed from all rows",
                 graph.value(id).name);
  return parts > 0;
}

}  // namespace plimsoll
