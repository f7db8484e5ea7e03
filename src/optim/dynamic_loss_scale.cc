#include "optim/dynamic_loss_scale.h"

#include "graph/ops/ops.h"

namespace plimsoll {

LossScale declare_loss_scale(Graph& graph) {
  const auto state = [&](std::string_view name, DType dtype) {
    return graph.add_value(name, {dtype, Shape{1}}, Storage::kOptimizerState);
  };
  return {.scale = state(kLossScaleState, DType::kF32),
          .good_steps = state(kGoodStepsState, DType::kI32),
          .skipped = state(kSkippedStepsState, DType::kI32)};
}

void add_loss_scale_adjustment(Graph& graph, const LossScale& loss_scale, ValueId norm, ValueId finite) {
  const std::string names[] = {
      "loss_scale.updated", "loss_scale.good_steps.updated",   "loss_scale.skipped_steps.updated",
      "grad_norm",          std::string(kUsedLossScaleOutput), std::string(kSkippedStepsOutput)};
  const std::vector<ValueId> outputs =
      emit_all(graph, adjust_loss_scale_op(),
               {norm, finite, loss_scale.scale, loss_scale.good_steps, loss_scale.skipped},
               {{"smallest", kSmallestLossScale}, {"growth_interval", kLossScaleGrowthInterval}}, names);
  for (size_t i = 3; i < outputs.size(); ++i) graph.value(outputs[i]).storage = Storage::kOutput;
}

}  // namespace plimsoll
