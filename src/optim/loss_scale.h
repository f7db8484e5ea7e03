// Dynamic loss scaling as a part of the graph: the scale and its counters are optimizer states, the backward
// pass starts from the scale, and an op of the optimizer segment adjusts it. Where gradients overflow, the
// flag of the global norm keeps every update from happening. Thread-safe: pure functions of the graph.
#pragma once

#include <string_view>

#include "graph/ir/graph.h"

namespace plimsoll {

// The states by their names in the plan and in a checkpoint, and what the host reads after a step beside
// "grad_norm".
inline constexpr std::string_view kLossScaleState = "loss_scale";
inline constexpr std::string_view kGoodStepsState = "loss_scale.good_steps";
inline constexpr std::string_view kSkippedStepsState = "loss_scale.skipped_steps";
inline constexpr std::string_view kUsedLossScaleOutput = "used_loss_scale";
inline constexpr std::string_view kSkippedStepsOutput = "skipped_steps";

// The scale that a run starts with, a power of two, so that scaling rounds nothing: torch.amp.GradScaler's.
inline constexpr double kInitialLossScale = 65536.0;
inline constexpr int64_t kLossScaleGrowthInterval = 2000;
// An overflow at this scale is one of the unscaled gradient itself, which no scaling mends.
inline constexpr double kSmallestLossScale = 1.0;

struct LossScale {
  ValueId scale = kNoValue;  // f32[1]; kNoValue: gradients are not scaled
  ValueId good_steps = kNoValue;
  ValueId skipped = kNoValue;
  explicit operator bool() const { return scale != kNoValue; }
};

// Declares the states. The scale is what the backward pass starts from.
LossScale declare_loss_scale(Graph& graph);

// Appends what follows a step's gradients. `norm` and `finite` are those of the scaled gradients; "grad_norm"
// is then the norm of the unscaled ones.
void add_loss_scale_adjustment(Graph& graph, const LossScale& loss_scale, ValueId norm, ValueId finite);

}  // namespace plimsoll
