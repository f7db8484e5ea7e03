#include "plimsoll/plan.h"

#include <utility>

#include "api/plan_report.h"
#include "base/file.h"
#include "hardware/gpu_target.h"
#include "models/config.h"
#include "plan/search/suggest.h"
#include "plimsoll/commands.h"
#include "run/run_setup.h"

namespace plimsoll {

namespace {

RunSetup prepare_plan(Arguments arguments, const Environment& environment) {
  resolve_arguments(arguments);
  return prepare_run(arguments, RunPurpose::kPlan, environment, posix_file_system());
}

}  // namespace

PlanReport plan_run(const Arguments& arguments, const Environment& environment, Savings savings) {
  const RunSetup setup = prepare_plan(arguments, environment);
  const Plan plan = build_plan(setup.request);
  PlanReport report =
      make_plan_report(plan, setup.spec(), setup.plan_labels, savings, table_style(environment));
  report.warnings = setup.diagnostics.warnings;
  if (std::string text = redundant_accumulation(plan, setup.spec()); !text.empty())
    report.warnings.push_back(std::move(text));
  report.notes.insert(report.notes.begin(), setup.diagnostics.notes.begin(), setup.diagnostics.notes.end());
  return report;
}

void require_fit(const Arguments& arguments, const Environment& environment) {
  const RunSetup setup = prepare_plan(arguments, environment);
  require_fit(build_plan(setup.request), setup.spec(), setup.plan_labels);
}

ValueNames known_value_names() {
  ValueNames names;
  names["config_name"] = preset_names();
  names["device"] = {"auto", "cpu", "cuda:0"};
  names["plan device"] = names["device"];
  names["fit device"] = {"auto", "cpu", "cuda:0", "all"};
  for (const GpuTarget& target : gpu_targets()) {
    names["plan device"].push_back(target.name);
    if (runs_release(target)) names["fit device"].push_back(target.name);
  }
  return names;
}

}  // namespace plimsoll
