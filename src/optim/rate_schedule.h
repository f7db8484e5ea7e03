// Learning-rate schedules: the factor that multiplies the peak learning rate at each optimizer step, with the
// names and options of transformers' Trainer (lr_scheduler_type, lr_scheduler_kwargs). Pure host functions.
// The two schedules that follow a metric are in metric_schedule.h. Thread-safe: values only.
//
// Units: a step is an optimizer step; the argument of the multiplier is the number of optimizer steps that are already done, so the first
// update uses schedule_multiplier(0), and the last one schedule_multiplier(num_training_steps - 1). Learning rates are absolute. Source:
// transformers.optimization (version 5.23); the multipliers equal those of transformers up to a few roundings of double precision. Beyond
// the end (step > num_training_steps) a schedule that has an end keeps its last value; the cosine schedules of transformers would rise
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace plimsoll {

enum class ScheduleKind : uint8_t {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
  kReduceLrOnPlateau,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay,
  kGreedy,
};

// Returns the value of lr_scheduler_type: "linear", "cosine", "cosine_with_restarts", ...
std::string_view schedule_name(ScheduleKind kind);
// Returns all kinds in the order of the enum.
std::span<const ScheduleKind> all_schedules();
// Returns the kind of that name. Errors: kUsage with the list of names if the name is unknown.
ScheduleKind parse_schedule(std::string_view name);

// Returns true if the schedule depends on a metric of evaluations (reduce_lr_on_plateau, greedy). Such a schedule has no multiplier, needs
// evaluations, and is implemented in metric_schedule.h.
constexpr bool follows_metric(ScheduleKind kind) {
  return kind == ScheduleKind::kReduceLrOnPlateau || kind == ScheduleKind::kGreedy;
}

// The shape of the warm-up and of the decay in warmup_stable_decay: "linear", "cosine" or "1-sqrt".
enum class ScheduleCurve : uint8_t { kLinear, kCosine, kOneMinusSqrt };

// A schedule with all of its parameters. make_schedule creates and checks it.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kLinear;
  double learning_rate = 5e-5;  // the peak learning rate
  int64_t num_warmup_steps = 0;
  int64_t num_training_steps = 1;
  // Only cosine schedules use it: the number of cosine waves, or of restarts for cosine_with_restarts (default 1).
  double num_cycles = 0.5;
  double power = 1.0;    // exponent of the decay; only polynomial uses it
  double lr_end = 1e-7;  // last learning rate; only polynomial uses it
  // Minimum learning rate divided by the peak. It is computed from the option min_lr_rate, min_lr or min_lr_ratio.
  double min_lr_rate = 0.0;
  // Used by inverse_sqrt only: the time scale of the decay, in steps.
  double timescale = 10000.0;
  int64_t num_stable_steps = 0;  // steps at the peak; only warmup_stable_decay uses it
  int64_t num_decay_steps = 0;   // steps of the decay; only warmup_stable_decay uses it
  // Used by cosine_warmup_with_min_lr: first learning rate of the warm-up divided by the peak.
  std::optional<double> warmup_lr_rate = {};
  // The curves of the warm-up and of the decay; only warmup_stable_decay uses them.
  ScheduleCurve warmup_type = ScheduleCurve::kLinear;
  ScheduleCurve decay_type = ScheduleCurve::kCosine;
};

// One option of lr_scheduler_kwargs.
struct ScheduleOption {
  std::string name;
  // Integers are stored as doubles too; an option whose JSON value is null is not listed.
  std::variant<double, std::string> value;
};

// Returns a checked schedule. Requires: the schedule does not depend on a metric. Errors: kUsage if an option is unknown to this kind (the
// message lists those it has), has the wrong type or an impossible value, or one that the kind needs is missing. For constant and
// constant_with_warmup, options are ignored, as in transformers.
Schedule make_schedule(ScheduleKind kind, double learning_rate, int64_t num_warmup_steps,
                       int64_t num_training_steps, std::span<const ScheduleOption> options = {});

// Returns the learning rate at a step divided by the peak: in [0, 1] unless an option makes the end higher
// than the peak. Requires: step >= 0.
double schedule_multiplier(const Schedule& schedule, int64_t step);

}  // namespace plimsoll
