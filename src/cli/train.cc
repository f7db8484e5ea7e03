#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {
namespace {

// A signal handler can reach only what is global, and a signal comes to any thread.
std::atomic<Trainer*> running{nullptr};
std::atomic<int> handlers_at_work{0};
volatile std::sig_atomic_t signals_seen = 0;
static_assert(std::atomic<Trainer*>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may take no lock");

// While it lives, a signal asks the Trainer to stop: however the run ends, no handler has the Trainer in hand
// when it goes.
class StoppedBySignals {
 public:
  explicit StoppedBySignals(Trainer& trainer) { running = &trainer; }
  ~StoppedBySignals() {
    running = nullptr;
    // One in this thread would be done, so these are others'.
    while (handlers_at_work != 0) std::this_thread::yield();
  }
  StoppedBySignals(const StoppedBySignals&) = delete;
  StoppedBySignals& operator=(const StoppedBySignals&) = delete;
};

// Returns whether there is a run to stop.
bool stop_running() {
  ++handlers_at_work;
  Trainer* const trainer = running;
  if (trainer != nullptr) trainer->request_stop();
  --handlers_at_work;
  return trainer != nullptr;
}

void on_signal(int signal) {
  // A terminal that closes says so more than once, by the kernel and by its shell: that is no wish to stop at
  // once.
  static volatile std::sig_atomic_t hung_up = 0;
  if (signal == SIGHUP && (hung_up != 0 || signals_seen != 0)) return;
  if (signal == SIGHUP) {
    hung_up = 1;
  } else {
    signals_seen = signals_seen + 1;
  }
  // As a shell says of a program that a signal ended: nothing was saved by it.
  if (signals_seen > 1) _exit(128 + signal);
  // What has ended is saved or has failed, and is telling so.
  if (!stop_running()) return;
  constexpr char kText[] = "\nfinishing the step and saving; a second signal stops at once\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
}

// From here on a signal ends the step, not the process.
void catch_signals() {
  on_interrupt(on_signal);
  std::signal(SIGTERM, on_signal);
  // nohup ignores it, and that holds.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  // Who read what this prints may be gone, as `tee` is after Ctrl-C. The write fails then; what was trained
  // is saved.
  std::signal(SIGPIPE, SIG_IGN);
}

// Everything is saved: a signal ends the program as it would any other.
void release_signals() {
  on_interrupt(nullptr);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

// The last line: what lies in the output folder, and what was left alone there.
std::string describe_outcome(const Arguments& arguments, const TrainOutput& output,
                             const std::vector<std::string>& written) {
  if (output.was_complete) {
    return arguments.output_dir + ": training was complete at step " + std::to_string(output.step) +
           ", its results are as they were";
  }
  const bool is_adapter = arguments.lora_r || !arguments.adapter_name_or_path.empty();
  std::string text = "wrote " + arguments.output_dir + (is_adapter ? ": adapter_" : ": ") +
                     "model.safetensors, all_results.json, log.jsonl";
  for (const std::string& name : written) text += ", " + name;
  if (!output.best_checkpoint.empty()) text += "; best " + output.best_checkpoint;
  if (std::find(written.begin(), written.end(), "README.md") == written.end())
    text += "; README.md stays as it was, it is not a model card of ours";
  return text;
}

}  // namespace

int run_train(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print_arguments_help(RunCommand::kTrain,
                         "plimsoll train [FILE.json|FILE.yaml] --model_name_or_path MODEL --train_file FILE "
                         "[--validation_file FILE --do_eval] --output_dir DIR [arguments]",
                         parsed.help_topic);
    return 0;
  }
  Remarks remarks(parsed.warnings, parsed.notes);
  const Arguments& arguments = parsed.arguments;
  if (parsed.explicitly_set.contains("do_train") && !arguments.do_train) {
    if (arguments.do_eval) return evaluate_and_predict(arguments, Task::kEvaluate, remarks);
    if (arguments.do_predict) return evaluate_and_predict(arguments, Task::kPredict, remarks);
    throw Error(
        ErrorCode::kUsage,
        "--do_train False leaves nothing to do: give --do_eval or --do_predict, or leave it out to train");
  }
  Trainer trainer(arguments, Task::kTrain, process_environment());
  std::optional<StoppedBySignals> stopped_by_signals(std::in_place, trainer);
  // A dry run has nothing to save, and its reader may leave: `train --dry_run | head`.
  if (!arguments.dry_run) catch_signals();
  if (!show_and_start(trainer, arguments, remarks)) return 0;
  const TrainOutput output = trainer.train(say);
  const std::vector<std::string> written = trainer.save_reports(output);
  if (output.interrupted) {
    stopped_by_signals.reset();
    say("interrupted at step " + std::to_string(output.step) + "; saved " + output.last_checkpoint +
        (arguments.save_only_model ? ", the model alone (--save_only_model): it can be used, not gone on with"
                                   : "; go on with --resume_from_checkpoint True"));
    return static_cast<int>(ErrorCode::kInterrupted);
  }
  MetricMap metrics = output.metrics;
  if (!output.was_complete || !std::filesystem::exists(arguments.output_dir + "/train_results.json")) {
    metrics["epoch"] = output.log_history.empty() ? 0.0 : output.log_history.back().epoch;
    print(format_metrics("train", metrics));
    trainer.save_metrics("train", metrics);
  }
  trainer.save_model(arguments.output_dir);
  stopped_by_signals.reset();
  release_signals();
  if (arguments.do_eval) {
    MetricMap evaluation = trainer.evaluate();
    evaluation["epoch"] = metrics["epoch"];
    print(format_metrics("eval", evaluation));
    trainer.save_metrics("eval", evaluation);
  }
  if (arguments.do_predict) write_predictions(trainer, arguments);
  if (arguments.profile) print(trainer.profile_table());
  print(format_memory(trainer.memory()));
  print(describe_outcome(arguments, output, written));
  return 0;
}

}  // namespace plimsoll::cli
