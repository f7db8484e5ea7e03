// The losses whose labels are numbers. Thread-safe: pure functions.
#pragma once

#include "graph/ops/ops.h"
#include "tasks/task.h"

namespace plimsoll {

// Returns loss_1 of logits_BK and labels_BK by an op that reads logits, labels, denominator and the number of
// sequences.
inline ValueId build_value_loss(Graph& graph, const OpSchema& op, ValueId logits,
                                const LossOptions& options) {
  const ValueId denominator = add_denominator(graph, options);
  const ValueId labels = graph.add_input("labels", {options.dtype, Shape{kDimB, options.num_labels}});
  const ValueId rows =
      graph.add_input("num_sequences", {DType::kI32, Shape{1}}, {.source = InputSource::kNumSequences});
  return emit(graph, op, {logits, labels, denominator, rows}, {}, "loss");
}

}  // namespace plimsoll
