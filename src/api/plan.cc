#include "plimsoll/plan.h"

#include <utility>

#include "api/plan_report.h"
#include "base/file.h"
#include "plan/search/redundant_accumulation.h"
#include "plan/search/suggest.h"
#include "run/run_setup.h"

namespace plimsoll {

PlanReport plan_run(const Arguments& arguments, const Environment& environment, Savings savings) {
  const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
  const Plan plan = build_plan(setup.request);
  PlanReport report =
      make_plan_report(plan, setup.spec(), setup.plan_labels, savings, characters_of(environment));
  report.warnings = setup.diagnostics.warnings;
  if (std::string text = redundant_accumulation(plan, setup.spec()); !text.empty())
    report.warnings.push_back(std::move(text));
  report.notes.insert(report.notes.begin(), setup.diagnostics.notes.begin(), setup.diagnostics.notes.end());
  return report;
}

void require_fit(const Arguments& arguments, const Environment& environment) {
  const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
  require_fit(build_plan(setup.request), setup.spec(), setup.plan_labels);
}

}  // namespace plimsoll
