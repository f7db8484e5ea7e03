// The schedule of the learning rate that the arguments of a run select. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "optim/metric_schedule.h"
#include "optim/schedule.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// A schedule by the number of the step, or by the metric of evaluations.
using RunSchedule = std::variant<Schedule, MetricScheduleOptions>;

// Returns the schedule of a run with this number of steps. Errors: kUsage if --lr_scheduler_kwargs do not fit
// --lr_scheduler_type.
RunSchedule run_schedule(const Arguments& arguments, int64_t max_steps);

// Returns a sentence about the learning rate and the warm-up if gradient accumulation makes the effective batch larger;
// "" without accumulation. `max_steps` is 0 if the data, and so the number of steps, is unknown.
std::string describe_accumulated_batch(const Arguments& arguments, int64_t max_steps);

}  // namespace plimsoll
