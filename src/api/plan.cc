#include "plimsoll/plan.h"

#include "api/plan_report.h"
#include "base/file.h"
#include "plan/search/suggest.h"
#include "train/run_setup.h"

namespace plimsoll {

PlanReport plan_run(const Arguments& arguments, const Environment& environment, Savings savings) {
  const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
  PlanReport report = make_plan_report(build_plan(setup.request), savings);
  report.warnings = setup.warnings;
  report.notes = setup.notes;
  return report;
}

void require_fit(const Arguments& arguments, const Environment& environment) {
  const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
  require_fit(build_plan(setup.request));
}

}  // namespace plimsoll
