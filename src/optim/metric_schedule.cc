#include "optim/metric_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "optim/schedule_options.h"

namespace plimsoll {
namespace {

double worst(const MetricScheduleOptions& options) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return options.mode == MetricGoal::kMin ? kInf : -kInf;
}

bool is_better(const MetricScheduleOptions& o, double metric, double best) {
  const bool relative = o.threshold_mode == ThresholdMode::kRelative;
  if (o.mode == MetricGoal::kMin)
    return metric < (relative ? best * (1.0 - o.threshold) : best - o.threshold);
  return metric > (relative ? best * (1.0 + o.threshold) : best + o.threshold);
}

void reduce(const MetricScheduleOptions& options, MetricScheduleState& state) {
  const double lower = std::max(state.learning_rate * options.factor, options.min_lr);
  if (state.learning_rate - lower > options.eps) state.learning_rate = lower;
}

void follow_on_plateau(const MetricScheduleOptions& options, MetricScheduleState& state, double metric) {
  if (is_better(options, metric, state.best)) {
    state.best = metric;
    state.num_bad = 0;
  } else {
    ++state.num_bad;
  }
  if (state.cooldown_left > 0) {
    --state.cooldown_left;
    state.num_bad = 0;
  }
  if (state.num_bad > options.patience) {
    reduce(options, state);
    state.cooldown_left = options.cooldown;
    state.num_bad = 0;
  }
}

// Adds a metric to the window and returns the mean of the window.
double smoothed(const MetricScheduleOptions& options, MetricScheduleState& state, double metric) {
  state.window.push_back(metric);
  state.window_sum += metric;
  if (static_cast<int64_t>(state.window.size()) > options.window_size) {
    state.window_sum -= state.window.front();
    state.window.erase(state.window.begin());
  }
  return state.window_sum / static_cast<double>(state.window.size());
}

void increase(const MetricScheduleOptions& options, MetricScheduleState& state) {
  const double higher = std::min(state.learning_rate / options.factor, options.max_lr);
  if (higher - state.learning_rate > options.eps) state.learning_rate = higher;
  state.resets_left = options.reset_start;
}

void reduce_or_reset(const MetricScheduleOptions& options, MetricScheduleState& state) {
  reduce(options, state);
  if (state.learning_rate > options.min_lr) return;
  if (--state.resets_left <= 0) state = start_metric_schedule(options, state.initial_learning_rate);
}

void follow_greedily(const MetricScheduleOptions& options, MetricScheduleState& state, double metric) {
  if (options.smooth) metric = smoothed(options, state, metric);
  if (state.cooldown_left > 0 || state.warmup_left > 0) {
    --(state.cooldown_left > 0 ? state.cooldown_left : state.warmup_left);
    state.num_bad = 0;
    state.num_good = 0;
    return;
  }
  if (is_better(options, metric, state.best)) {
    state.best = metric;
    state.num_bad = 0;
    ++state.num_good;
  } else {
    ++state.num_bad;
    state.num_good = 0;
  }
  if (state.num_good > options.patience) {
    increase(options, state);
    state.warmup_left = options.warmup;
    state.num_good = 0;
  } else if (state.num_bad > options.patience) {
    // reduce_or_reset() may start the schedule again, which clears the cooldown. As in transformers' GreedyLR, the cooldown is set after
    // that, so it stays in effect.
    reduce_or_reset(options, state);
    state.cooldown_left = options.cooldown;
    state.num_bad = 0;
  }
}

void read_greedy_options(MetricScheduleOptions& options, ScheduleOptionReader& reader) {
  options.max_lr = reader.number("max_lr").value_or(options.max_lr);
  options.warmup = reader.whole("warmup", 0).value_or(options.warmup);
  options.smooth = reader.number("smooth").value_or(0.0) != 0.0;
  options.window_size = reader.whole("window_size", 1).value_or(options.window_size);
  options.reset_start = reader.whole("reset_start", 0).value_or(options.reset_start);
  reader.number("verbose");  // `verbose` is accepted for compatibility with transformers and ignored
}

}  // namespace

MetricScheduleOptions make_metric_schedule(ScheduleKind kind, std::span<const ScheduleOption> list) {
  PLIMSOLL_CHECK(
      follows_metric(kind),
      "make_metric_schedule() needs a schedule that depends on a metric of evaluations, but '{}' does not",
      schedule_name(kind));
  const bool greedy = kind == ScheduleKind::kGreedy;
  MetricScheduleOptions options{.kind = kind};
  if (greedy) {
    options.factor = 0.95;
    options.threshold = 1e-6;
    options.threshold_mode = ThresholdMode::kAbsolute;
    options.min_lr = 1e-3;
  }
  constexpr std::string_view kModes[] = {"min", "max"};
  constexpr std::string_view kThresholdModes[] = {"rel", "abs"};
  ScheduleOptionReader reader(kind, list);
  if (const auto mode = reader.text("mode", kModes)) {
    options.mode = *mode == "min" ? MetricGoal::kMin : MetricGoal::kMax;
  }
  options.factor = reader.number("factor").value_or(options.factor);
  options.patience = reader.whole("patience", 0).value_or(options.patience);
  options.threshold = reader.number("threshold").value_or(options.threshold);
  if (const auto mode = reader.text("threshold_mode", kThresholdModes)) {
    options.threshold_mode = *mode == "rel" ? ThresholdMode::kRelative : ThresholdMode::kAbsolute;
  }
  options.cooldown = reader.whole("cooldown", 0).value_or(options.cooldown);
  options.min_lr = reader.number("min_lr").value_or(options.min_lr);
  options.eps = reader.number("eps").value_or(options.eps);
  if (greedy) read_greedy_options(options, reader);
  reader.refuse_the_rest();
  if (!(options.factor < 1.0) || (greedy && !(options.factor > 0.0))) {
    throw_error(ErrorCode::kUsage,
                "--lr_scheduler_kwargs: the factor of schedule '{}' is {}, but it must be {}below 1",
                schedule_name(kind), options.factor, greedy ? "above 0 and " : "");
  }
  return options;
}

MetricScheduleState start_metric_schedule(const MetricScheduleOptions& options, double learning_rate) {
  MetricScheduleState state;
  state.learning_rate = learning_rate;
  state.initial_learning_rate = learning_rate;
  state.best = worst(options);
  state.resets_left = options.reset_start;
  return state;
}

void follow_metric(const MetricScheduleOptions& options, MetricScheduleState& state, double metric) {
  if (options.kind == ScheduleKind::kGreedy) return follow_greedily(options, state, metric);
  follow_on_plateau(options, state, metric);
}

std::map<std::string, double> state_values(const MetricScheduleState& state) {
  std::map<std::string, double> values{{"learning_rate", state.learning_rate},
                                       {"initial_learning_rate", state.initial_learning_rate},
                                       {"num_bad", static_cast<double>(state.num_bad)},
                                       {"num_good", static_cast<double>(state.num_good)},
                                       {"cooldown_left", static_cast<double>(state.cooldown_left)},
                                       {"warmup_left", static_cast<double>(state.warmup_left)},
                                       {"resets_left", static_cast<double>(state.resets_left)},
                                       {"window_length", static_cast<double>(state.window.size())},
                                       {"window_sum", state.window_sum}};
  if (std::isfinite(state.best)) values["best"] = state.best;
  for (size_t i = 0; i < state.window.size(); ++i) values[fmt::format("window.{}", i)] = state.window[i];
  return values;
}

MetricScheduleState state_from_values(const MetricScheduleOptions& options,
                                      const std::map<std::string, double>& values) {
  const auto number = [&](const std::string& name) {
    const auto found = values.find(name);
    if (found == values.end()) {
      throw_error(ErrorCode::kBadData,
                  "the saved state of the learning-rate schedule '{}' has no '{}'; the checkpoint is damaged "
                  "or was saved with another schedule: resume from another one",
                  schedule_name(options.kind), name);
    }
    return found->second;
  };
  const auto whole = [&](const std::string& name) {
    const double value = number(name);
    if (!(std::fabs(value) <= 0x1p53) || value != std::floor(value)) {
      throw_error(ErrorCode::kBadData,
                  "the saved state of the learning-rate schedule '{}' has '{}' = {}, which is not a count; "
                  "the checkpoint is damaged: resume from another one",
                  schedule_name(options.kind), name, value);
    }
    return static_cast<int64_t>(value);
  };
  MetricScheduleState state = start_metric_schedule(options, number("initial_learning_rate"));
  state.learning_rate = number("learning_rate");
  if (values.contains("best")) state.best = number("best");
  state.num_bad = whole("num_bad");
  state.num_good = whole("num_good");
  state.cooldown_left = whole("cooldown_left");
  state.warmup_left = whole("warmup_left");
  state.resets_left = whole("resets_left");
  state.window_sum = number("window_sum");
  const int64_t length = whole("window_length");
  if (length < 0 || length > options.window_size) {
    throw_error(ErrorCode::kBadData,
                "the saved state of the learning-rate schedule '{}' contains {} metrics, but its window has "
                "room for {}; the checkpoint is damaged: resume from another one",
                schedule_name(options.kind), length, options.window_size);
  }
  for (int64_t i = 0; i < length; ++i) state.window.push_back(number(fmt::format("window.{}", i)));
  return state;
}

}  // namespace plimsoll
