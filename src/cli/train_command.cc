#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/download_progress.h"
#include "cli/interrupt.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/run_events.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {
namespace {

constexpr char kStopNotice[] = "\nfinishing the step and saving; a second signal stops at once\n";

// Returns true if a folder has one of the files from which a tokenizer is loaded.
bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

// Returns the last line that `train` prints. It names the files that were written to the output folder and those that were kept.
std::string describe_outcome(const Arguments& arguments, const TrainOutput& output,
                             const std::vector<std::string>& written) {
  if (output.was_complete) {
    return arguments.output_dir + ": training was already complete at step " + std::to_string(output.step) +
           "; its results are unchanged";
  }
  const bool is_adapter = arguments.lora_r || !arguments.adapter_name_or_path.empty();
  std::string text =
      "wrote " + arguments.output_dir +
      (is_adapter ? ": adapter_config.json, adapter_model.safetensors" : ": config.json, model.safetensors");
  if (has_tokenizer(arguments.output_dir)) text += ", the tokenizer";
  text += ", train_results.json, all_results.json, trainer_state.json, log.jsonl";
  for (const std::string& name : written) text += ", " + name;
  if (!output.best_checkpoint.empty()) text += "; best " + output.best_checkpoint;
  if (std::find(written.begin(), written.end(), "README.md") == written.end())
    text += "; README.md was kept, because Plimsoll did not write it";
  return text;
}

// Environment variable that this program sets for the ranks that it starts. Its value is the checkpoint from which a
// restarted rank resumes; if it is empty, the arguments determine the checkpoint.
constexpr const char* kResumeVariable = "PLIMSOLL_RESUME_FROM_CHECKPOINT";

// Starts one process of `train` per rank with these arguments, and returns the exit code of the run.
int run_ranks(int num_ranks, const std::vector<std::string>& words, const Arguments& arguments) {
  RankCommand command{.words = {own_program(), "train"},
                      .num_ranks = num_ranks,
                      .max_restarts = static_cast<int>(arguments.max_restarts)};
  command.words.insert(command.words.end(), words.begin(), words.end());
  setenv(kResumeVariable, "", 1);
  if (command.max_restarts == 0) return launch_ranks(command);
  const NewCheckpoints checkpoints(arguments.output_dir);
  const std::string& given = arguments.resume_from_checkpoint;
  command.prepare_restart = [&]() -> Restart {
    const std::string newest = checkpoints.newest();
    if (!newest.empty())
      return {.variables = {{kResumeVariable, newest}}, .origin = "resuming from " + newest};
    const std::string reason = "no checkpoint of this run is complete";
    return {.variables = {},
            .origin = given.empty()
                          ? "starting from the beginning, because " + reason
                          : "--resume_from_checkpoint " + given + " applies again, because " + reason};
  };
  return launch_ranks(command);
}

// If this program has started this process as a rank, applies the checkpoint in kResumeVariable to the arguments.
// Errors: as require_no_restarts(), if another launcher has started it.
void follow_launcher(Arguments& arguments) {
  const char* checkpoint = std::getenv(kResumeVariable);
  if (checkpoint == nullptr) {
    require_no_restarts(arguments, launcher_of(process_environment()));
    return;
  }
  if (*checkpoint != '\0') arguments.resume_from_checkpoint = checkpoint;
  // The process that starts the ranks counts the restarts, so a rank itself never restarts the run.
  arguments.max_restarts = 0;
}

// Writes the HTML report and the trace of a run to the files that --html and --trace name.
void write_report_files(const Trainer& trainer, const Arguments& arguments) {
  if (!arguments.html.empty()) write_text(report_html({arguments.output_dir}), "--html", arguments.html);
  if (arguments.trace.empty()) return;
  const std::string trace = trainer.profile_trace();
  if (trace.empty()) {
    say("no trace was written, because no step was measured");
  } else {
    write_text(trace, "--trace", arguments.trace);
  }
}

// Checks before a run that the files of --html and --trace can be written after the last step. The folder of a file may
// be missing if it is the output folder, which the run makes. A trace is refused if the run measures no times.
void check_report_files(const Arguments& arguments) {
  const auto of_run = (std::filesystem::path(arguments.output_dir) / "file").parent_path();
  for (const auto& [argument, path] : {std::pair("--html", arguments.html), {"--trace", arguments.trace}}) {
    const auto folder = std::filesystem::path(path).parent_path();
    if (path.empty() || (folder == of_run && !std::filesystem::exists(folder))) continue;
    require_writable(argument, path);
  }
  if (arguments.trace.empty() || arguments.profile || arguments.dry_run) return;
  throw Error(ErrorCode::kUsage,
              "--trace " + arguments.trace +
                  " needs --profile, which measures the time of each operation; with --dry_run it "
                  "writes the plan with estimated times");
}

}  // namespace

int run_train(const std::vector<std::string>& words, RunEvents& events) {
  ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(command_screen(command_named("train"), parsed.help_topic));
    return 0;
  }
  set_verbosity(parsed.arguments);
  const std::optional<int> num_local = num_local_ranks(process_environment());
  const std::string gpus_note = use_all_gpus(parsed, num_local);
  // The process that starts ranks does not print warnings and notes about the arguments, because the first rank prints
  // them.
  const int num_ranks = num_ranks_to_start(parsed, num_local);
  if (num_ranks > 0 || num_local) require_no_replies(parsed.arguments);
  if (num_ranks > 0) {
    if (!gpus_note.empty()) say_all({}, {gpus_note});
    download_models(parsed.arguments, RunCommand::kTrain);
    return run_ranks(num_ranks, words, parsed.arguments);
  }
  if (num_local) {
    join_repeated_signals();
    follow_launcher(parsed.arguments);
  }
  const bool is_first = is_first_rank(process_environment());
  if (!is_first) {
    leave_output_to_first_rank();
    parsed.arguments.json.clear();
    parsed.arguments.html.clear();
    parsed.arguments.trace.clear();
    parsed.arguments.event_fd.reset();
    parsed.arguments.save_logits = false;
  }
  events.open(parsed.arguments, "train");
  Remarks remarks(parsed.warnings, parsed.notes);
  if (!gpus_note.empty()) remarks.add({}, {gpus_note});
  const Arguments& arguments = parsed.arguments;
  TestInput input = read_test_input(parsed);
  // When `train` also predicts, it writes the predictions into the output folder instead of printing them.
  input.shows = false;
  input.saves = is_first;
  if (parsed.explicitly_set.contains("do_train") && !arguments.do_train) {
    const RunCommand instead = arguments.do_eval ? RunCommand::kEvaluate : RunCommand::kPredict;
    std::set<std::string> given = parsed.explicitly_set;
    for (const char* flag : {"do_train", "do_eval", "do_predict"}) given.erase(flag);
    const bool does_something = arguments.do_eval || arguments.do_predict;
    if (std::string note = unused_note(instead, given); does_something && !note.empty())
      remarks.add({}, {note});
    // Evaluation and prediction without training need only one process, so other ranks end here.
    if (!is_first) return 0;
    if (arguments.do_eval) return evaluate_and_predict(arguments, Task::kEvaluate, input, remarks, events);
    if (arguments.do_predict) return evaluate_and_predict(arguments, Task::kPredict, input, remarks, events);
    throw Error(ErrorCode::kUsage,
                "--do_train False leaves nothing to do: give --do_eval or --do_predict, or omit --do_train "
                "to train");
  }
  check_report_files(arguments);
  download_models(arguments, RunCommand::kTrain);
  Trainer trainer(arguments, parts_of(arguments, input, events), Task::kTrain, program_environment());
  std::optional<StoppedBySignals> stopped_by_signals;
  const auto stop_by_signals = [&] {
    stopped_by_signals.emplace([](void* target) { static_cast<Trainer*>(target)->request_stop(); }, &trainer,
                               kStopNotice);
    // A dry run has nothing to save, so it does not catch signals, and a signal ends it at once.
    if (!arguments.dry_run) catch_signals();
  };
  // If the program that reads the output has ended, for example `tee` after Ctrl-C, printing fails, but training still
  // ends normally and saves its state. A dry run keeps SIGPIPE, so that in `train --dry_run | head` it ends with `head`.
  if (!arguments.dry_run) std::signal(SIGPIPE, SIG_IGN);
  // In a run of several processes, show_and_start() waits for the other ranks. Until then signals
  // are not caught and may end this process at once, because there is nothing to save yet.
  if (!num_local) stop_by_signals();
  if (!show_and_start(trainer, arguments, Task::kTrain, remarks, events)) return 0;
  if (num_local) stop_by_signals();
  const TrainOutput output = trainer.train(say);
  const std::vector<std::string> written = trainer.save_reports(output);
  if (output.interrupted) {
    stopped_by_signals.reset();
    events.send_results("train", output.metrics);
    add_results("train", output.metrics);
    finish_results();
    say("interrupted at step " + std::to_string(output.step) + "; saved " + output.last_checkpoint +
        (arguments.save_only_model.value_or(false)
             ? ", only the model (--save_only_model), which cannot be resumed"
             : "; resume with --resume_from_checkpoint True"));
    return static_cast<int>(ErrorCode::kInterrupted);
  }
  MetricMap metrics = output.metrics;
  if (!output.was_complete || !std::filesystem::exists(arguments.output_dir + "/train_results.json")) {
    metrics["epoch"] = output.log_history.empty() ? 0.0 : output.log_history.back().epoch;
    print(format_metrics("train", metrics));
    trainer.save_metrics("train", metrics);
  }
  events.send_results("train", metrics);
  add_results("train", metrics);
  trainer.save_model(arguments.output_dir);
  events.send_file("model", arguments.output_dir);
  stopped_by_signals.reset();
  release_signals();
  if (arguments.do_eval) {
    MetricMap evaluation = trainer.evaluate();
    evaluation["epoch"] = metrics["epoch"];
    print(format_metrics("eval", evaluation));
    events.send_results("eval", evaluation);
    add_results("eval", evaluation);
    save_named_metrics(trainer, arguments, "eval", evaluation);
  }
  if (arguments.do_predict) write_predictions(trainer, arguments, input, events);
  if (arguments.profile) print(trainer.profile_table());
  write_report_files(trainer, arguments);
  print_talk(format_memory(trainer.memory()));
  print(describe_outcome(arguments, output, written));
  if (const std::string sizes = describe_saved_sizes(arguments.output_dir); !sizes.empty())
    print_talk(arguments.output_dir + " contains " + sizes);
  finish_results();
  return 0;
}

}  // namespace plimsoll::cli
