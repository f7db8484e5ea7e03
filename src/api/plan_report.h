// From a plan to the public report: texts and sums.
#pragma once

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/plan.h"

namespace plimsoll {

PlanReport make_plan_report(const Plan& plan, const PlanLabels& labels, Savings savings);

}  // namespace plimsoll
