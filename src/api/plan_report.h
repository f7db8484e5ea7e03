// Converts a plan to the report that the public API returns: texts, and sums of memory and time. Pure; thread-safe.
#pragma once

#include "plan/compile/plan.h"
#include "plan/request/request_of.h"
#include "plan/search/change.h"
#include "plan/search/shared_graphs.h"
#include "plimsoll/plan.h"
#include "run/run_setup.h"
#include "show/report/quantities.h"

namespace plimsoll {

// Converts an effect of the planner to the type in the public headers.
MethodEffect public_effect(Effect effect);

struct TableStyle {
  Characters characters = Characters::kUnicode;
  size_t columns = 100;
};
// Returns the characters and the width of tables for the locale and the terminal that an environment describes
// (training.h).
TableStyle table_style(const Environment& environment);

// Returns the report of a plan. `beams` has the memory and the speed with other numbers of beams, for a plan that
// generates texts. `shared` contains the graphs from which the plan was built. If it is not null, the suggested changes of
// arguments are planned from the same graphs, which takes less time.
PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings,
                            const TableStyle& style = {}, const std::vector<BeamCost>& beams = {},
                            SharedGraphs* shared = nullptr);

// Adds the HTML report for --html and the trace for --trace to the report, if these arguments are set in `setup`.
void add_plan_files(const Plan& plan, const RunSetup& setup, PlanReport& report);

}  // namespace plimsoll
