#include "train/learning_rate.h"

#include <variant>

#include "run/run_length.h"

namespace plimsoll {

LearningRate::LearningRate(const Arguments& arguments, int64_t max_steps, const OptimizerConfig& optimizer)
    : base_rate_(arguments.learning_rate), optimizer_(optimizer) {
  const RunSchedule schedule = run_schedule(arguments, max_steps);
  if (const auto* by_metric = std::get_if<MetricScheduleOptions>(&schedule)) {
    metric_options_ = *by_metric;
    metric_state_ = start_metric_schedule(metric_options_, base_rate_);
  } else {
    schedule_ = std::get<Schedule>(schedule);
  }
}

double LearningRate::after(int64_t num_updates) const {
  const double scheduled = metric_state_ ? metric_state_->learning_rate
                                         : base_rate_ * schedule_multiplier(*schedule_, num_updates);
  return learning_rate_of_step(optimizer_, scheduled, num_updates + 1);
}

bool LearningRate::has_decayed(int64_t num_updates) const {
  return schedule_ && schedule_multiplier(*schedule_, num_updates) <= 0.01;
}

void LearningRate::follow(double metric) {
  if (metric_state_) follow_metric(metric_options_, *metric_state_, metric);
}

void LearningRate::store(std::map<std::string, double>& state) const {
  if (metric_state_) state = state_values(*metric_state_);
}

void LearningRate::restore(const std::map<std::string, double>& state) {
  if (metric_state_ && !state.empty()) metric_state_ = state_from_values(metric_options_, state);
}

}  // namespace plimsoll
