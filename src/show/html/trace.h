// Traces in the JSON format of Chrome's trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open: one
// slice per op on the track of its queue (computation, copies to or from the device, communication), and a counter with
// the live bytes of the arena by purpose. Pure; thread-safe.
#pragma once

#include <span>
#include <string>

#include "plan/anatomy/operations.h"
#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"

namespace plimsoll {

// Returns a trace with estimated times of the plan's first program, which is a training step of one micro-batch if the plan
// trains. Requires: the plan has a program.
std::string plan_trace(const Plan& plan, const PlanLabels& labels);

// Returns the trace of a program with measured times. `ops` and `ms_per_step` have the same meaning as in profile_json(). The
// duration of a slice is the mean time of one execution of its op. Requires: `ms_per_step` has one element per op.
std::string profile_trace(const Plan& plan, const ProgramPlan& program, const PlanLabels& labels,
                          const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step);

}  // namespace plimsoll
