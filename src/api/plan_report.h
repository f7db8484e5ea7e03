// Makes the public report of a plan: texts and sums. Pure; thread-safe.
#pragma once

#include "plan/compile/plan.h"
#include "plan/request/request_of.h"
#include "plimsoll/plan.h"

namespace plimsoll {

PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings);

}  // namespace plimsoll
