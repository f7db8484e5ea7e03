// Computes the learning rate of a run from the number of updates or, for reduce_lr_on_plateau, from the metrics of its evaluations. An
// object is used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "optim/metric_schedule.h"
#include "optim/optimizer.h"
#include "optim/rate_schedule.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

class LearningRate {
 public:
  // Errors: as run_schedule().
  LearningRate(const Arguments& arguments, int64_t max_steps, const OptimizerConfig& optimizer);

  // Returns the learning rate of the next update after `num_updates` updates.
  double after(int64_t num_updates) const;
  // Returns true if, after `num_updates` updates, the schedule has reduced the learning rate to at most a hundredth of its peak. A
  // schedule that follows a metric has no planned end, so the function returns false for it.
  bool has_decayed(int64_t num_updates) const;
  // Passes the metric of an evaluation to the schedule, if the schedule depends on one.
  void follow(double metric);

  // Stores the state of a schedule that follows a metric. For other schedules, leaves `state` unchanged.
  void store(std::map<std::string, double>& state) const;
  // Restores a state that store() has stored. An empty state changes nothing.
  void restore(const std::map<std::string, double>& state);

 private:
  double base_rate_;
  OptimizerConfig optimizer_;
  std::optional<Schedule> schedule_;
  MetricScheduleOptions metric_options_;
  std::optional<MetricScheduleState> metric_state_;
};

}  // namespace plimsoll
