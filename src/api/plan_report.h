// Makes the public report of a plan: texts and sums. Pure; thread-safe.
#pragma once

#include "plan/compile/plan.h"
#include "plan/request/request_of.h"
#include "plan/search/change.h"
#include "plan/search/shared_graphs.h"
#include "plimsoll/plan.h"
#include "run/run_setup.h"
#include "show/report/quantities.h"

namespace plimsoll {

// Returns the effect of a change as the public headers name it.
MethodEffect public_effect(Effect effect);

struct TableStyle {
  Characters characters = Characters::kUnicode;
  size_t columns = 100;
};
// Returns the style that the locale and the width of an environment allow (training.h).
TableStyle table_style(const Environment& environment);

// `beams`: for a plan that generates texts, its memory and speed with other numbers of beams. `shared`: the graphs from which the
// plan was built, if the suggested changes that save memory are to be planned from them as well.
PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings,
                            const TableStyle& style = {}, const std::vector<BeamCost>& beams = {},
                            SharedGraphs* shared = nullptr);

// Adds the report for --html and the trace for --trace, if `setup` asks for them.
void add_plan_files(const Plan& plan, const RunSetup& setup, PlanReport& report);

}  // namespace plimsoll
