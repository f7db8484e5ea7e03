#include "plimsoll/plan.h"

#include <malloc.h>

#include <charconv>
#include <limits>
#include <system_error>

#include "cli/command.h"
#include "cli/download_progress.h"
#include "plimsoll/error.h"
#include "plimsoll/experiments.h"
#include "plimsoll/run_commands.h"

namespace plimsoll::cli {
namespace {

// Plans the experiments of `bench --experiments` and prints the predicted table, instead of planning one run.
int plan_table(const CommandWords& words, const Arguments& arguments) {
  set_verbosity(arguments);
  const bool is_all = words.value("experiments") == "all";
  const ExperimentPlan plan = plan_experiments(
      words.rest, is_all ? PlannedRows::kAll : PlannedRows::kDocuments, program_environment());
  Remarks remarks(plan.warnings, plan.notes);
  if (write_json(plan.json, arguments)) print(plan.table);
  return 0;
}

// Returns the value of --prompt_length, or 0 if it is not given.
int64_t prompt_length(const CommandWords& words) {
  if (!words.has("prompt_length")) return 0;
  const std::string text = words.value("prompt_length");
  int64_t tokens = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (error != std::errc() || end != text.data() + text.size() || tokens < 1 || tokens > kMost) {
    throw Error(ErrorCode::kUsage, "plan: --prompt_length " + text +
                                       ": expected a number of tokens from 1 to " + std::to_string(kMost));
  }
  return tokens;
}

// Makes the allocator keep freed memory instead of returning it to the system, because this command
// makes many plans, and requesting the memory again would take 5 % of the time.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace

int run_plan(const std::vector<std::string>& words) {
  keep_freed_memory();
  const CommandInfo& command = command_named("plan");
  const CommandWords sorted = read_command_words(command, words);
  if (sorted.help) {
    print(command_screen(command, sorted.help_topic));
    return 0;
  }
  const bool generates = sorted.value("phase", "train") == "generate";
  if (sorted.has("experiments") && sorted.has("phase"))
    throw Error(ErrorCode::kUsage, "plan: --experiments and --phase exclude each other; give one of them");
  if (sorted.has("prompt_length") && !generates)
    throw Error(ErrorCode::kUsage, "plan: --prompt_length is for --phase generate, which is not given");
  if (sorted.has("links") && (generates || sorted.has("experiments"))) {
    throw Error(ErrorCode::kUsage, "plan: --links applies only to one training run; omit it, or omit --" +
                                       std::string(generates ? "phase" : "experiments"));
  }
  ParseResult parsed = parse_arguments(sorted.rest);
  if (sorted.has("experiments")) return plan_table(sorted, parsed.arguments);
  set_verbosity(parsed.arguments);
  if (!generates) {
    if (std::string note = use_all_gpus(parsed, std::nullopt); !note.empty())
      parsed.notes.push_back(std::move(note));
  }
  Remarks remarks(parsed.warnings, parsed.notes);
  download_models(parsed.arguments, RunCommand::kPlan);
  const PlanReport report =
      generates
          ? plan_generation(parsed.arguments, prompt_length(sorted), program_environment(), Savings::kPlan)
      : sorted.has("links") ? plan_run_with_links(parsed.arguments, sorted.value("links"),
                                                  program_environment(), Savings::kPlan)
                            : plan_run(parsed.arguments, program_environment(), Savings::kPlan);
  if (std::string note =
          unused_note(generates ? RunCommand::kGenerate : RunCommand::kPlan, parsed.explicitly_set);
      !note.empty())
    remarks.add({}, {note});
  remarks.add(report.warnings, report.notes);
  print_plan(report, parsed.arguments);
  remarks.say_now();
  if (!report.fits) throw Error(ErrorCode::kWillNotFit, report.refusal);
  return 0;
}

}  // namespace plimsoll::cli
