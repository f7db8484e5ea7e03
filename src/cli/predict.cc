#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/command.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

namespace {

void write_predictions(const std::vector<Prediction>& predictions, const std::string& folder,
                       const std::string& task) {
  // run_glue's form: index and prediction.
  std::string text = "index\tprediction\n";
  for (size_t i = 0; i < predictions.size(); ++i)
    text += std::to_string(i) + "\t" + predictions[i].label + "\n";
  const std::string path = folder + "/predict_results" + (task.empty() ? "" : "_" + task) + ".txt";
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(ErrorCode::kDevice, path + ": the file cannot be written");
  print("wrote " + std::to_string(predictions.size()) + " predictions to " + path);
}

}  // namespace

void write_predictions(Trainer& trainer, const Arguments& arguments) {
  write_predictions(trainer.predict(), arguments.output_dir, arguments.task_name);
  if (trainer.has_test_set(TestSet::kMismatched))
    write_predictions(trainer.predict(TestSet::kMismatched), arguments.output_dir,
                      arguments.task_name + "-mm");
}

int evaluate_and_predict(const Arguments& arguments, Task task) {
  Trainer trainer(arguments, task, process_environment());
  if (!show_and_start(trainer, arguments)) return 0;
  // A folder that cannot be made is found before the work, not after it.
  std::filesystem::create_directories(arguments.output_dir);
  if (task == Task::kEvaluate) {
    const MetricMap metrics = trainer.evaluate();
    print(metrics_text("eval", metrics));
    trainer.save_metrics("eval", metrics);
  }
  if (arguments.do_predict || task == Task::kPredict) write_predictions(trainer, arguments);
  return 0;
}

namespace {

int run_task(const std::vector<std::string>& words, Task task) {
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    print(arguments_help(parsed.help_topic));
    return 0;
  }
  say_all(parsed.warnings, parsed.notes);
  return evaluate_and_predict(parsed.arguments, task);
}

}  // namespace

int run_eval(const std::vector<std::string>& words) {
  return run_task(words, Task::kEvaluate);
}

int run_predict(const std::vector<std::string>& words) {
  return run_task(words, Task::kPredict);
}

}  // namespace plimsoll::cli
