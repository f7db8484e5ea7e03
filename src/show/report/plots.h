// The plots of a run as SVG texts: loss over steps, memory over a step. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Training and evaluation loss (keys "loss" and "eval_loss" of the records) over optimizer steps. `caption`
// says the device and what was run. A run without records gives a plot without lines.
std::string loss_plot(const LogHistory& history, const std::string& title, const std::string& caption);

// Live bytes over the estimated time of a step (one micro-batch and the optimizer), stacked by purpose, with
// the arena's size as a line; of evaluation where the plan does not train. The caption names model, batch and
// device.
std::string memory_plot(const Plan& plan);

}  // namespace plimsoll
