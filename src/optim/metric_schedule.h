// The two learning-rate schedules that depend on a metric of evaluations: reduce_lr_on_plateau and greedy. They receive the metric after
// every evaluation and have a state, which a checkpoint stores. They run on the host. Not thread-safe.
//
// Sources: torch.optim.lr_scheduler.ReduceLROnPlateau (torch 2.15) and transformers.optimization.GreedyLR
// (5.23; arXiv 2512.14527), with their options, defaults and order of operations, for one learning rate.
// Units: learning rates are absolute; patience, cooldown, warmup and reset_start count evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "optim/rate_schedule.h"

namespace plimsoll {

enum class MetricGoal : uint8_t { kMin, kMax };
enum class ThresholdMode : uint8_t { kRelative, kAbsolute };

struct MetricScheduleOptions {
  ScheduleKind kind = ScheduleKind::kReduceLrOnPlateau;
  MetricGoal mode = MetricGoal::kMin;
  double factor = 0.1;  // the default of the schedule greedy is 0.95
  int64_t patience = 10;
  double threshold = 1e-4;  // the default of the schedule greedy is 1e-6
  // For the schedule greedy, the default is kAbsolute.
  ThresholdMode threshold_mode = ThresholdMode::kRelative;
  int64_t cooldown = 0;
  double min_lr = 0.0;  // the default of the schedule greedy is 1e-3
  double eps = 1e-8;    // the learning rate does not change if the change would be smaller than this
  // The following options are used only by greedy.
  double max_lr = 1.0;
  int64_t warmup = 0;
  // If true, the schedule compares the mean of the last window_size metrics with the best mean, instead of single metrics.
  bool smooth = false;
  int64_t window_size = 50;
  int64_t reset_start = 500;  // number of reductions at min_lr before the schedule starts again
};

// The state of a schedule, which every evaluation updates.
struct MetricScheduleState {
  double learning_rate = 0.0;
  double initial_learning_rate = 0.0;
  double best = 0.0;  // the best metric so far; infinite before the first one
  int64_t num_bad = 0;
  int64_t num_good = 0;
  int64_t cooldown_left = 0;
  int64_t warmup_left = 0;
  int64_t resets_left = 0;
  std::vector<double> window;  // the metrics whose mean is compared, oldest first
  double window_sum = 0.0;
};

// Returns checked options. Errors: kUsage if an option is unknown to this kind, has the wrong type or an
// impossible value. Booleans are 0 and 1.
MetricScheduleOptions make_metric_schedule(ScheduleKind kind, std::span<const ScheduleOption> options = {});

// Returns the state before the first evaluation.
MetricScheduleState start_metric_schedule(const MetricScheduleOptions& options, double learning_rate);

// Updates the state with the metric of an evaluation; the next steps use state.learning_rate. A NaN is never
// an improvement.
void follow_metric(const MetricScheduleOptions& options, MetricScheduleState& state, double metric);

// Convert the state to named finite numbers for a checkpoint, and back. An infinite `best` is omitted. Errors of state_from_values():
// kBadData if a number is missing or impossible.
std::map<std::string, double> state_values(const MetricScheduleState& state);
MetricScheduleState state_from_values(const MetricScheduleOptions& options,
                                      const std::map<std::string, double>& values);

}  // namespace plimsoll
