#include <fstream>

#include "cli/command.h"
#include "plimsoll/plan.h"

namespace plimsoll::cli {

int run_plan(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(arguments_help(parsed.help_topic));
    return 0;
  }
  say_all(parsed.warnings, parsed.notes);
  const PlanReport report = plan_run(parsed.arguments, process_environment(), Savings::kPlan);
  say_all(report.warnings, report.notes);
  if (!parsed.arguments.json.empty()) {
    std::ofstream file(parsed.arguments.json);
    file << report.json;
    if (!file.flush())
      throw Error(ErrorCode::kDevice, "--json " + parsed.arguments.json + ": the file cannot be written");
  }
  print(report.table + report.savings);
  if (parsed.arguments.modules) print("\n" + report.modules);
  if (parsed.arguments.why) print("\n" + report.why);
  if (!report.fits) require_fit(parsed.arguments, process_environment());
  return 0;
}

}  // namespace plimsoll::cli
