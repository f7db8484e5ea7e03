#include "plimsoll/plan.h"

#include "cli/command.h"
#include "plimsoll/error.h"
#include "plimsoll/experiments.h"

namespace plimsoll::cli {
namespace {

// Predicts the table of experiments instead of one run.
int plan_table(const CommandWords& words, const Arguments& arguments) {
  set_verbosity(arguments);
  const bool is_all = words.value("experiments") == "all";
  const ExperimentPlan plan = plan_experiments(
      words.rest, is_all ? PlannedRows::kAll : PlannedRows::kDocuments, program_environment());
  Remarks remarks(plan.warnings, plan.notes);
  if (write_json(plan.json, arguments)) print(plan.table);
  return 0;
}

}  // namespace

int run_plan(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("plan");
  const CommandWords sorted = read_command_words(command, words);
  if (sorted.help) {
    print(command_screen(command, sorted.help_topic));
    return 0;
  }
  const ParseResult parsed = parse_arguments(sorted.rest);
  if (sorted.has("experiments")) return plan_table(sorted, parsed.arguments);
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
