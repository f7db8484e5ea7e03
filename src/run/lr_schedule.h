// The schedule of a run's learning rate, as its arguments say. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <variant>

#include "optim/metric_schedule.h"
#include "optim/schedule.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// By the number of the step, or by the metric of evaluations.
using RunSchedule = std::variant<Schedule, MetricScheduleOptions>;

// The schedule of a run of so many steps. Errors: kUsage where --lr_scheduler_kwargs do not fit
// --lr_scheduler_type.
RunSchedule run_schedule(const Arguments& arguments, int64_t max_steps);

}  // namespace plimsoll
