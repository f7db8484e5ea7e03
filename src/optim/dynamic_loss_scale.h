// Dynamic loss scaling as part of the graph. The scale and its counters are optimizer states, the gradient of the loss is the scale instead
// of 1, and an op that runs once per step adjusts the scale. If gradients overflow, the flag `finite`, which is computed together with
// their norm, prevents all updates. Thread-safe: pure functions of the graph.
#pragma once

#include <string_view>

#include "graph/ir/graph.h"

namespace plimsoll {

// The names of the optimizer states of loss scaling in the plan and in a checkpoint, and of the outputs that the host reads after a step,
// in addition to "grad_norm".
inline constexpr std::string_view kLossScaleState = "loss_scale";
inline constexpr std::string_view kGoodStepsState = "loss_scale.good_steps";
inline constexpr std::string_view kSkippedStepsState = "loss_scale.skipped_steps";
inline constexpr std::string_view kUsedLossScaleOutput = "used_loss_scale";
inline constexpr std::string_view kSkippedStepsOutput = "skipped_steps";

// The initial scale of torch.amp.GradScaler. It is a power of two, so scaling does not round.
inline constexpr double kInitialLossScale = 65536.0;
inline constexpr int64_t kLossScaleGrowthInterval = 2000;
// The smallest scale. If gradients overflow at 1, the unscaled gradient itself overflows, so a smaller scale would not help.
inline constexpr double kSmallestLossScale = 1.0;

struct LossScale {
  ValueId scale = kNoValue;  // f32[1], or kNoValue if gradients are not scaled
  ValueId good_steps = kNoValue;
  ValueId skipped = kNoValue;
  explicit operator bool() const { return scale != kNoValue; }
};

// Declares the states of loss scaling in the graph and returns them. The caller starts the backward pass with the scale as the gradient of
// the loss.
LossScale declare_loss_scale(Graph& graph);

// Appends the op that adjusts the scale after the gradients of a step. `norm` is the norm of the scaled gradients, and `finite` is 1 if all
// of them are finite. The output "grad_norm" becomes the norm of the unscaled gradients.
void add_loss_scale_adjustment(Graph& graph, const LossScale& loss_scale, ValueId norm, ValueId finite);

}  // namespace plimsoll
