// From a plan to the public report: texts and sums.
#pragma once

#include "plan/compile/plan.h"
#include "plimsoll/plan.h"

namespace plimsoll {

PlanReport make_plan_report(const Plan& plan, Savings savings);

}  // namespace plimsoll
