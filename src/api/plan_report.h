// Makes the public report of a plan: texts and sums. Pure; thread-safe.
#pragma once

#include "plan/compile/plan.h"
#include "plan/request/request_of.h"
#include "plimsoll/plan.h"
#include "show/report/quantities.h"

namespace plimsoll {

// Returns the characters that the locale of an environment can show (training.h); Unicode if it names none.
Characters characters_of(const Environment& environment);

PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings,
                            Characters characters = Characters::kUnicode);

}  // namespace plimsoll
