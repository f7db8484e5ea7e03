#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/command.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

namespace {

// Writes each line immediately, so that memory does not grow with the number of rows. The file gets its final
// name when it is complete.
MetricMap write_predictions(Trainer& trainer, TestSet set, const std::string& folder,
                            const std::string& task) {
  const std::string path = folder + "/predict_results" + (task.empty() ? "" : "_" + task) + ".txt";
  const std::string unfinished = path + ".tmp";
  errno = 0;
  std::ofstream file(unfinished, std::ios::binary);
  // The format of run_glue: index and prediction.
  file << "index\tprediction\n";
  int64_t rows = 0;
  MetricMap metrics = trainer.predict(
      [&](const Prediction& prediction) { file << rows++ << '\t' << prediction.label << '\n'; }, set);
  if (!file.flush()) {
    throw Error(ErrorCode::kDevice,
                unfinished + ": cannot write the file: " + std::strerror(errno) +
                    "; check the permissions of the folder and the free space on its disk");
  }
  std::filesystem::rename(unfinished, path);
  print("wrote " + std::to_string(rows) + (rows == 1 ? " prediction to " : " predictions to ") + path);
  return metrics;
}

}  // namespace

void write_predictions(Trainer& trainer, const Arguments& arguments) {
  MetricMap metrics = write_predictions(trainer, TestSet::kTest, arguments.output_dir, arguments.task_name);
  if (trainer.has_test_set(TestSet::kMismatched)) {
    // Metrics of the second set get run_glue's suffix.
    for (const auto& [key, value] : write_predictions(trainer, TestSet::kMismatched, arguments.output_dir,
                                                      arguments.task_name + "-mm")) {
      metrics[key + "_mm"] = value;
    }
  }
  print(format_metrics("predict", metrics));
  trainer.save_metrics("predict", metrics);
}

int evaluate_and_predict(const Arguments& arguments, Task task, Remarks& remarks) {
  Trainer trainer(arguments, task, process_environment());
  if (!show_and_start(trainer, arguments, remarks)) return 0;
  // A folder that cannot be created must be reported before the work.
  std::filesystem::create_directories(arguments.output_dir);
  if (task == Task::kEvaluate) {
    const MetricMap metrics = trainer.evaluate();
    print(format_metrics("eval", metrics));
    trainer.save_metrics("eval", metrics);
  }
  if (arguments.do_predict || task == Task::kPredict) write_predictions(trainer, arguments);
  return 0;
}

namespace {

int run_task(const std::vector<std::string>& words, Task task) {
  const RunCommand command = task == Task::kEvaluate ? RunCommand::kEvaluate : RunCommand::kPredict;
  const ParseResult parsed = parse_arguments(words);
  if (parsed.help) {
    const std::string name(to_string(command));
    const std::string data = task == Task::kEvaluate ? "--validation_file" : "--test_file";
    print_arguments_help(command,
                         "plimsoll " + name + " [FILE.json|FILE.yaml] --model_name_or_path MODEL " + data +
                             " FILE --output_dir DIR [arguments]",
                         parsed.help_topic);
    return 0;
  }
  std::vector<std::string> notes = parsed.notes;
  if (std::string note = unused_note(command, parsed.explicitly_set); !note.empty())
    notes.push_back(std::move(note));
  Remarks remarks(parsed.warnings, std::move(notes));
  return evaluate_and_predict(parsed.arguments, task, remarks);
}

}  // namespace

int run_eval(const std::vector<std::string>& words) {
  return run_task(words, Task::kEvaluate);
}

int run_predict(const std::vector<std::string>& words) {
  return run_task(words, Task::kPredict);
}

}  // namespace plimsoll::cli
