#include "plimsoll/plan.h"

#include "cli/command.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

int run_plan(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(command_screen(command_named("plan"), parsed.help_topic));
    return 0;
  }
  set_verbosity(parsed.arguments);
  Remarks remarks(parsed.warnings, parsed.notes);
  const PlanReport report = plan_run(parsed.arguments, program_environment(), Savings::kPlan);
  remarks.add(report.warnings, report.notes);
  print_plan(report, parsed.arguments);
  remarks.say_now();
  if (!report.fits) throw Error(ErrorCode::kWillNotFit, report.refusal);
  return 0;
}

}  // namespace plimsoll::cli
