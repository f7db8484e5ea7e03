// The plots of a run as SVG: loss and metrics over steps, and memory over a step. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Plots the training and evaluation loss (keys "loss" and "eval_loss" of the records) over optimizer steps.
// `caption` describes the device and the run. Empty if the records contain no loss.
std::string loss_plot(const LogHistory& history, const std::string& title, const std::string& caption);

// Plots the metrics of the evaluations, such as eval_accuracy, over optimizer steps. Empty if the records contain none.
std::string metrics_plot(const LogHistory& history, const std::string& title, const std::string& caption);

// Plots the live bytes over the estimated time of a step (one micro-batch and the optimizer), stacked by
// purpose, with the size of the arena as a line. If the plan does not train, it plots the evaluation. The
// caption names the model, the batch and the device.
std::string memory_plot(const Plan& plan, const PlanLabels& labels = {});

}  // namespace plimsoll
