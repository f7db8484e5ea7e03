#include "plimsoll/plan.h"

#include "cli/command.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

int run_plan(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print_arguments_help(
        RunCommand::kPlan,
        "plimsoll plan [FILE.json|FILE.yaml] --model_name_or_path MODEL|--config_name PRESET [--why] "
        "[--modules] [--json FILE] [arguments of train]",
        parsed.help_topic);
    return 0;
  }
  set_verbosity(parsed.arguments);
  Remarks remarks(parsed.warnings, parsed.notes);
  const PlanReport report = plan_run(parsed.arguments, process_environment(), Savings::kPlan);
  remarks.add(report.warnings, report.notes);
  print_plan(report, parsed.arguments);
  remarks.say_now();
  if (!report.fits) throw Error(ErrorCode::kWillNotFit, report.refusal);
  return 0;
}

}  // namespace plimsoll::cli
