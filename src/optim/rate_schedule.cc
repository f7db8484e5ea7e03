#include "optim/rate_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "optim/schedule_options.h"

namespace plimsoll {
namespace {

struct NamedKind {
  ScheduleKind kind;
  std::string_view name;
};
constexpr NamedKind kNames[] = {
    {ScheduleKind::kLinear, "linear"},
    {ScheduleKind::kCosine, "cosine"},
    {ScheduleKind::kCosineWithRestarts, "cosine_with_restarts"},
    {ScheduleKind::kPolynomial, "polynomial"},
    {ScheduleKind::kConstant, "constant"},
    {ScheduleKind::kConstantWithWarmup, "constant_with_warmup"},
    {ScheduleKind::kInverseSqrt, "inverse_sqrt"},
    {ScheduleKind::kReduceLrOnPlateau, "reduce_lr_on_plateau"},
    {ScheduleKind::kCosineWithMinLr, "cosine_with_min_lr"},
    {ScheduleKind::kCosineWarmupWithMinLr, "cosine_warmup_with_min_lr"},
    {ScheduleKind::kWarmupStableDecay, "warmup_stable_decay"},
    {ScheduleKind::kGreedy, "greedy"},
};
constexpr auto kKinds = [] {
  std::array<ScheduleKind, std::size(kNames)> kinds{};
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kNames[i].kind;
  return kinds;
}();

constexpr std::string_view kCurves[] = {"linear", "cosine", "1-sqrt"};
ScheduleCurve parse_curve(const std::string& name) {
  if (name == kCurves[0]) return ScheduleCurve::kLinear;
  return name == kCurves[1] ? ScheduleCurve::kCosine : ScheduleCurve::kOneMinusSqrt;
}

// Returns `numerator` divided by `count`, or by 1 if `count` is 0.
double over(double numerator, int64_t count) {
  return numerator / static_cast<double>(std::max<int64_t>(1, count));
}

double wave(double num_cycles, double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * num_cycles * 2.0 * progress));
}

// Maps a factor linearly from the range [0, 1] to the range [least, 1].
double above(double least, double factor) {
  return std::max(0.0, factor * (1.0 - least) + least);
}

double polynomial(const Schedule& s, int64_t step) {
  const int64_t decay_steps = s.num_training_steps - s.num_warmup_steps;
  if (step >= s.num_training_steps || decay_steps <= 0) return s.lr_end / s.learning_rate;
  const double remaining =
      1.0 - static_cast<double>(step - s.num_warmup_steps) / static_cast<double>(decay_steps);
  return ((s.learning_rate - s.lr_end) * std::pow(remaining, s.power) + s.lr_end) / s.learning_rate;
}

double warmup_stable_decay(const Schedule& s, int64_t step) {
  if (step < s.num_warmup_steps) {
    const double progress = over(static_cast<double>(step), s.num_warmup_steps);
    double factor = progress;
    if (s.warmup_type == ScheduleCurve::kCosine) factor = 0.5 * (1.0 - std::cos(std::numbers::pi * progress));
    if (s.warmup_type == ScheduleCurve::kOneMinusSqrt) factor = 1.0 - std::sqrt(1.0 - progress);
    return above(s.min_lr_rate, factor);
  }
  const int64_t decay_start = s.num_warmup_steps + s.num_stable_steps;
  if (step < decay_start) return 1.0;
  if (step >= decay_start + s.num_decay_steps) return s.min_lr_rate;
  const double progress = over(static_cast<double>(step - decay_start), s.num_decay_steps);
  double factor = 1.0 - progress;
  if (s.decay_type == ScheduleCurve::kCosine) factor = wave(s.num_cycles, progress);
  if (s.decay_type == ScheduleCurve::kOneMinusSqrt) factor = 1.0 - std::sqrt(progress);
  return above(s.min_lr_rate, factor);
}

// Returns the multiplier of cosine_warmup_with_min_lr, which counts steps from 1, unlike the other schedules, so
// that neither the first nor the last step has a rate of 0.
double cosine_warmup_with_min_lr(const Schedule& s, int64_t step) {
  const double done = static_cast<double>(step);
  if (step < s.num_warmup_steps) {
    if (!s.warmup_lr_rate) return over(done + 1.0, s.num_warmup_steps);
    return *s.warmup_lr_rate + over((1.0 - *s.warmup_lr_rate) * done, s.num_warmup_steps - 1);
  }
  const double progress =
      over(done - static_cast<double>(s.num_warmup_steps) + 1.0, s.num_training_steps - s.num_warmup_steps);
  return above(s.min_lr_rate, wave(s.num_cycles, progress));
}

// Returns the multiplier of a step after the warm-up, for schedules that begin with a linear warm-up from 0.
double after_warmup(const Schedule& s, int64_t step) {
  const int64_t decay_steps = s.num_training_steps - s.num_warmup_steps;
  const double progress = over(static_cast<double>(step - s.num_warmup_steps), decay_steps);
  switch (s.kind) {
    case ScheduleKind::kLinear:
      return std::max(0.0, over(static_cast<double>(s.num_training_steps - step), decay_steps));
    case ScheduleKind::kCosine:
    case ScheduleKind::kCosineWithMinLr:
      return above(s.min_lr_rate, wave(s.num_cycles, progress));
    case ScheduleKind::kCosineWithRestarts:
      if (progress >= 1.0) return 0.0;
      return std::max(0.0, wave(0.5, std::fmod(s.num_cycles * progress, 1.0)));
    case ScheduleKind::kPolynomial:
      return polynomial(s, step);
    case ScheduleKind::kInverseSqrt: {
      const double shift = s.timescale - static_cast<double>(s.num_warmup_steps);
      return 1.0 / std::sqrt((static_cast<double>(step) + shift) / s.timescale);
    }
    default:
      return 1.0;
  }
}

void read_min_lr(Schedule& schedule, ScheduleOptionReader& reader) {
  const std::optional<double> min_lr = reader.number("min_lr"), rate = reader.number("min_lr_rate");
  if (min_lr.has_value() == rate.has_value()) {
    throw_error(ErrorCode::kUsage,
                "--lr_scheduler_kwargs: schedule '{}' needs one of min_lr and min_lr_rate, but {} given",
                schedule_name(schedule.kind), min_lr ? "both are" : "none is");
  }
  if (min_lr && schedule.learning_rate == 0.0) {
    throw_error(ErrorCode::kUsage,
                "schedule '{}': min_lr {} needs a learning_rate above 0; raise --learning_rate",
                schedule_name(schedule.kind), *min_lr);
  }
  schedule.min_lr_rate = rate ? *rate : *min_lr / schedule.learning_rate;
}

void read_warmup_stable_decay(Schedule& schedule, ScheduleOptionReader& reader) {
  const std::optional<int64_t> decay = reader.whole("num_decay_steps", 0),
                               stable = reader.whole("num_stable_steps", 0);
  if (const auto curve = reader.text("warmup_type", kCurves)) schedule.warmup_type = parse_curve(*curve);
  if (const auto curve = reader.text("decay_type", kCurves)) schedule.decay_type = parse_curve(*curve);
  schedule.min_lr_rate = reader.number("min_lr_ratio").value_or(0.0);
  schedule.num_cycles = reader.number("num_cycles").value_or(0.5);
  if (!decay) {
    throw_error(ErrorCode::kUsage,
                "--lr_scheduler_kwargs: schedule 'warmup_stable_decay' needs num_decay_steps, such as "
                "{{\"num_decay_steps\": {}}}",
                std::max<int64_t>(1, schedule.num_training_steps / 10));
  }
  schedule.num_decay_steps = *decay;
  schedule.num_stable_steps =
      stable.value_or(schedule.num_training_steps - schedule.num_warmup_steps - *decay);
}

void read_options(Schedule& schedule, ScheduleOptionReader& reader) {
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kConstantWithWarmup:
      return;
    case ScheduleKind::kCosine:
      schedule.num_cycles = reader.number("num_cycles").value_or(0.5);
      break;
    case ScheduleKind::kCosineWithRestarts:
      schedule.num_cycles = reader.number("num_cycles").value_or(1.0);
      break;
    case ScheduleKind::kPolynomial:
      schedule.lr_end = reader.number("lr_end").value_or(1e-7);
      schedule.power = reader.number("power").value_or(1.0);
      if (!(schedule.learning_rate > schedule.lr_end)) {
        throw_error(ErrorCode::kUsage,
                    "schedule 'polynomial': lr_end {} must be below learning_rate {}; set lr_end in "
                    "--lr_scheduler_kwargs or raise --learning_rate",
                    schedule.lr_end, schedule.learning_rate);
      }
      break;
    case ScheduleKind::kInverseSqrt: {
      const int64_t otherwise = schedule.num_warmup_steps > 0 ? schedule.num_warmup_steps : 10000;
      schedule.timescale = static_cast<double>(reader.whole("timescale", 1).value_or(otherwise));
      break;
    }
    case ScheduleKind::kCosineWarmupWithMinLr:
      schedule.warmup_lr_rate = reader.number("warmup_lr_rate");
      [[fallthrough]];
    case ScheduleKind::kCosineWithMinLr:
      schedule.num_cycles = reader.number("num_cycles").value_or(0.5);
      read_min_lr(schedule, reader);
      break;
    case ScheduleKind::kWarmupStableDecay:
      read_warmup_stable_decay(schedule, reader);
      break;
    default:
      break;
  }
  reader.refuse_the_rest();
}

}  // namespace

std::string_view schedule_name(ScheduleKind kind) {
  for (const NamedKind& named : kNames) {
    if (named.kind == kind) return named.name;
  }
  return "?";
}

std::span<const ScheduleKind> all_schedules() {
  return kKinds;
}

ScheduleKind parse_schedule(std::string_view name) {
  std::string names;
  for (const NamedKind& named : kNames) {
    if (named.name == name) return named.kind;
    names += names.empty() ? "" : ", ";
    names += named.name;
  }
  throw_error(ErrorCode::kUsage, "there is no schedule '{}'; choose one of: {}", name, names);
}

Schedule make_schedule(ScheduleKind kind, double learning_rate, int64_t num_warmup_steps,
                       int64_t num_training_steps, std::span<const ScheduleOption> options) {
  PLIMSOLL_CHECK(
      !follows_metric(kind),
      "make_schedule() needs a schedule that does not depend on a metric of evaluations, but '{}' does",
      schedule_name(kind));
  if (!(learning_rate >= 0.0 && std::isfinite(learning_rate)) || num_warmup_steps < 0 ||
      num_training_steps < 1) {
    throw_error(ErrorCode::kUsage,
                "a schedule needs learning_rate >= 0, warmup_steps >= 0 and at least one step of training; "
                "they are {}, {} "
                "and {}",
                learning_rate, num_warmup_steps, num_training_steps);
  }
  Schedule schedule{.kind = kind,
                    .learning_rate = learning_rate,
                    .num_warmup_steps = num_warmup_steps,
                    .num_training_steps = num_training_steps};
  ScheduleOptionReader reader(kind, options);
  read_options(schedule, reader);
  return schedule;
}

double schedule_multiplier(const Schedule& schedule, int64_t step) {
  PLIMSOLL_CHECK(step >= 0, "step {}", step);
  if (schedule.kind == ScheduleKind::kConstant) return 1.0;
  const bool endless =
      schedule.kind == ScheduleKind::kConstantWithWarmup || schedule.kind == ScheduleKind::kInverseSqrt;
  if (!endless) step = std::min(step, schedule.num_training_steps);
  if (schedule.kind == ScheduleKind::kWarmupStableDecay) return warmup_stable_decay(schedule, step);
  if (schedule.kind == ScheduleKind::kCosineWarmupWithMinLr) return cosine_warmup_with_min_lr(schedule, step);
  if (step < schedule.num_warmup_steps) return over(static_cast<double>(step), schedule.num_warmup_steps);
  return after_warmup(schedule, step);
}

}  // namespace plimsoll
