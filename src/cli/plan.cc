#include "plimsoll/plan.h"
#include "cli/command.h"

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
  print_plan(report, parsed.arguments);
  if (!report.fits) require_fit(parsed.arguments, process_environment());
  return 0;
}

}  // namespace plimsoll::cli
