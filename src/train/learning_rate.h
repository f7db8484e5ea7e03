// The learning rate of a run: a function of the number of updates, or of the metrics of its evaluations
// (reduce_lr_on_plateau). One thread uses an object.
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

  // Returns the learning rate of the update after `num_updates` updates.
  double after(int64_t num_updates) const;
  // Returns true if the schedule has reduced the learning rate to at most a hundredth of its peak after `num_updates`
  // updates. A schedule that follows a metric has no planned end, so it never has.
  bool has_decayed(int64_t num_updates) const;
  // Passes the metric of an evaluation to the schedule, if it depends on one.
  void follow(double metric);

  // Stores the state of a schedule that follows a metric; other schedules leave `state` unchanged.
  void store(std::map<std::string, double>& state) const;
  // Restores the state that store() stored; an empty state changes nothing.
  void restore(const std::map<std::string, double>& state);

 private:
  double base_rate_;
  OptimizerConfig optimizer_;
  std::optional<Schedule> schedule_;
  MetricScheduleOptions metric_options_;
  std::optional<MetricScheduleState> metric_state_;
};

}  // namespace plimsoll
