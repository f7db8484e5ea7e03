#include <unistd.h>
#include <csignal>

#include <cstdio>

#include "cli/command.h"
#include "cli/progress.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {
namespace {

// A signal handler can reach only what is global.
Trainer* volatile running = nullptr;
volatile std::sig_atomic_t signals_seen = 0;

void on_signal(int signal) {
  signals_seen = signals_seen + 1;
  // As a shell says of a program that a signal ended: nothing was saved by it.
  if (signals_seen > 1) _exit(128 + signal);
  if (running != nullptr) running->request_stop();
  constexpr char kText[] = "\nfinishing the step and saving; a second signal stops at once\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
}

}  // namespace

int run_train(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(arguments_help(parsed.help_topic));
    return 0;
  }
  say_all(parsed.warnings, parsed.notes);
  const Arguments& arguments = parsed.arguments;
  Trainer trainer(arguments, Task::kTrain, process_environment());
  say(trainer.device_line());
  for (const std::string& line : trainer.description()) say(line);
  say_all(trainer.plan().warnings, trainer.plan().notes);
  print(trainer.plan().table + trainer.plan().savings);
  if (arguments.modules) print("\n" + trainer.plan().modules);
  if (arguments.why) print("\n" + trainer.plan().why);
  if (arguments.dry_run) {
    // Refuses before it takes anything: the same plan, the same words as a run's.
    if (!trainer.plan().fits) trainer.start();
    return 0;
  }
  running = &trainer;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  const std::string loaded = trainer.start();
  if (!loaded.empty()) say(loaded);
  const bool bar = is_terminal() && !arguments.disable_tqdm.value_or(false);
  trainer.add_callback(std::make_shared<Progress>(bar, trainer.plan().total_bytes));
  const TrainOutput output = trainer.train(say);
  trainer.save_reports(output);
  if (output.interrupted) {
    running = nullptr;
    say("interrupted at step " + std::to_string(output.step) + "; saved " + output.last_checkpoint +
        "; go on with --resume_from_checkpoint True");
    return static_cast<int>(ErrorCode::kInterrupted);
  }
  MetricMap metrics = output.metrics;
  metrics["epoch"] = output.log_history.empty() ? 0.0 : output.log_history.back().epoch;
  print(metrics_text("train", metrics));
  trainer.save_metrics("train", metrics);
  trainer.save_model(arguments.output_dir);
  if (arguments.do_eval) {
    MetricMap evaluation = trainer.evaluate();
    evaluation["epoch"] = metrics["epoch"];
    print(metrics_text("eval", evaluation));
    trainer.save_metrics("eval", evaluation);
  }
  if (arguments.do_predict) write_predictions(trainer, arguments);
  running = nullptr;
  if (arguments.profile) print(trainer.profile_table());
  print(memory_text(trainer.memory()));
  print("wrote " + arguments.output_dir +
        ": model.safetensors, all_results.json, log.jsonl, README.md, plan.json, memory.json, loss.svg, "
        "memory.svg" +
        (arguments.profile ? ", profile.json" : "") +
        (output.best_checkpoint.empty() ? "" : "; best " + output.best_checkpoint));
  return 0;
}

int run_eval(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(arguments_help(parsed.help_topic));
    return 0;
  }
  say_all(parsed.warnings, parsed.notes);
  Trainer trainer(parsed.arguments, Task::kEvaluate, process_environment());
  say(trainer.device_line());
  for (const std::string& line : trainer.description()) say(line);
  say_all(trainer.plan().warnings, trainer.plan().notes);
  const std::string loaded = trainer.start();
  if (!loaded.empty()) say(loaded);
  trainer.add_callback(std::make_shared<Progress>(
      is_terminal() && !parsed.arguments.disable_tqdm.value_or(false), trainer.plan().total_bytes));
  const MetricMap metrics = trainer.evaluate();
  print(metrics_text("eval", metrics));
  trainer.save_metrics("eval", metrics);
  return 0;
}

}  // namespace plimsoll::cli
