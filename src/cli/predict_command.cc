#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/download_progress.h"
#include "cli/npy_file.h"
#include "cli/run_events.h"
#include "plimsoll/report.h"
#include "plimsoll/trainer.h"

namespace plimsoll::cli {

namespace {

// Quotes a text that contains a tab, a quote or the end of a line, as Python's csv module does. pandas and Plimsoll read
// it back unchanged.
std::string tsv_field(const std::string& text) {
  if (text.find_first_of("\t\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Formats predictions as lines of a table: the index and the prediction, as Hugging Face's script
// run_glue writes them, then the texts and the scores if they are requested.
class PredictionLines {
 public:
  PredictionLines(const Arguments& arguments, std::vector<std::string> labels, bool with_texts)
      : scores_(arguments.scores), labels_(std::move(labels)), with_texts_(with_texts) {}

  // Returns the header of the table. The number of its columns follows from the first prediction.
  std::string header(const Prediction& first) {
    std::string line = "index\tprediction";
    if (with_texts_ && first.texts.size() == 1) line += "\ttext";
    for (size_t i = 0; with_texts_ && first.texts.size() > 1 && i < first.texts.size(); ++i)
      line += "\ttext" + std::to_string(i + 1);
    if (labels_.empty() && scores_ == "logits") {
      for (size_t i = 0; i < first.logits.size(); ++i) labels_.push_back(std::to_string(i));
    }
    const std::string kind = scores_ == "logits" ? "logit:" : "probability:";
    if (!scores_.empty()) {
      for (const std::string& label : labels_) line += "\t" + tsv_field(kind + label);
    }
    return line + "\n";
  }

  std::string line(int64_t index, const Prediction& prediction) const {
    std::string text = std::to_string(index) + "\t" + prediction.label;
    if (with_texts_) {
      for (const std::string& one : prediction.texts) text += "\t" + tsv_field(one);
    }
    if (scores_.empty()) return text + "\n";
    const std::vector<float>& scores = scores_ == "logits" ? prediction.logits : prediction.probabilities;
    for (size_t label = 0; label < labels_.size(); ++label) {
      text += '\t';
      // In token classification, the column of a label contains the scores of this label for all words of the sequence.
      for (size_t at = label; at < scores.size(); at += labels_.size()) {
        char number[32];
        std::snprintf(number, sizeof number, "%s%.6g", at == label ? "" : " ",
                      static_cast<double>(scores[at]));
        text += number;
      }
    }
    return text + "\n";
  }

 private:
  std::string scores_;
  std::vector<std::string> labels_;
  bool with_texts_;
};

// Writes the logits of predictions to predict_logits.npy. In token classification a sequence has
// several rows of logits, so predict_starts.npy contains the index of the first row of each sequence.
class PredictedLogits {
 public:
  // `suffix` distinguishes the files of MNLI's second test set: "" or "_mm".
  PredictedLogits(std::string folder, const std::string& suffix, size_t num_labels)
      : path_(std::move(folder) + "/predict" + suffix + "_"), num_labels_(num_labels) {}

  void add(const Prediction& prediction) {
    if (num_labels_ == 0) num_labels_ = prediction.logits.size();
    if (!logits_) {
      logits_.emplace(path_ + "logits.npy", "<f4", static_cast<int64_t>(num_labels_));
      starts_.emplace(path_ + "starts.npy", "<i8", 0);
    }
    starts_->append(std::span(&num_rows_, 1));
    logits_->append(prediction.logits);
    num_rows_ += static_cast<int64_t>(prediction.logits.size() / num_labels_);
    ++num_predictions_;
  }

  void finish() {
    if (!logits_) return;
    logits_->finish();
    starts_->append(std::span(&num_rows_, 1));
    const std::string& starts = starts_->finish();
    // Except in token classification, row i of the logits belongs to sequence i, so the file predict_starts.npy is not needed.
    if (num_rows_ == num_predictions_) std::filesystem::remove(starts);
  }

 private:
  std::string path_;
  size_t num_labels_;
  std::optional<NpyFile> logits_;
  std::optional<NpyFile> starts_;
  int64_t num_rows_ = 0;
  int64_t num_predictions_ = 0;
};

// Predicts a test set and passes each line of the table to `take` immediately, so that the memory does not grow with
// the number of rows.
MetricMap predict_lines(Trainer& trainer, TestSet set, const Arguments& arguments, const TestInput& input,
                        const std::function<void(const std::string& line)>& take,
                        PredictedLogits* logits = nullptr) {
  PredictionLines lines(arguments, trainer.label_names(), input.shows || !arguments.scores.empty());
  int64_t rows = 0;
  return trainer.predict(
      [&](const Prediction& prediction) {
        if (rows == 0) {
          if (arguments.scores == "probabilities" && prediction.probabilities.empty() &&
              !prediction.logits.empty())
            say("note: a regression has no probabilities: the prediction itself is the score");
          take(lines.header(prediction));
        }
        take(lines.line(rows++, prediction));
        if (input.shows) add_prediction(prediction);
        if (logits != nullptr) logits->add(prediction);
      },
      set);
}

// Writes predictions to a temporary file, which gets its final name when it is complete.
MetricMap write_predictions(Trainer& trainer, TestSet set, const Arguments& arguments, const TestInput& input,
                            const std::string& task) {
  if (!input.saves) return predict_lines(trainer, set, arguments, input, print);
  const std::string path =
      arguments.output_dir + "/predict_results" + (task.empty() ? "" : "_" + task) + ".txt";
  const std::string unfinished = path + ".tmp";
  errno = 0;
  std::ofstream file(unfinished, std::ios::binary);
  int64_t lines = 0;
  std::optional<PredictedLogits> logits;
  if (arguments.save_logits) {
    logits.emplace(arguments.output_dir, set == TestSet::kTest ? "" : "_mm", trainer.label_names().size());
  }
  const auto take = [&](const std::string& line) {
    file << line;
    ++lines;
    if (input.shows) print(line);
  };
  MetricMap metrics = predict_lines(trainer, set, arguments, input, take, logits ? &*logits : nullptr);
  if (logits) logits->finish();
  if (!file.flush()) {
    throw Error(ErrorCode::kDevice,
                unfinished + ": cannot write the file: " + std::strerror(errno) +
                    "; check the permissions of the folder and the free space on its disk");
  }
  std::filesystem::rename(unfinished, path);
  const int64_t rows = lines - 1;
  const std::string said =
      "wrote " + std::to_string(rows) + (rows == 1 ? " prediction to " : " predictions to ") + path;
  if (input.shows) {
    say(said);
  } else {
    print(said);
  }
  return metrics;
}

// Returns the lines of standard input. The last line may lack a newline.
std::vector<std::string> read_lines() {
  if (isatty(STDIN_FILENO) != 0) say("reading texts from the terminal, one per line; Ctrl-D ends them");
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
  }
  if (std::cin.bad()) throw Error(ErrorCode::kDevice, "standard input: reading failed before the end");
  return lines;
}

}  // namespace

TestInput read_test_input(const ParseResult& parsed) {
  TestInput input;
  const Arguments& arguments = parsed.arguments;
  input.texts.entries = parsed.positionals;
  input.texts.name = "the command line";
  for (const std::string& text : parsed.positionals) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(text, ignored)) {
      throw Error(ErrorCode::kUsage, "predict: '" + text +
                                         "' is a file, and words of the command line are texts; "
                                         "give a data file with --test_file, or settings with --config");
    }
  }
  if (!parsed.positionals.empty() && !arguments.test_file.empty()) {
    throw Error(ErrorCode::kUsage, "predict: the text '" + parsed.positionals[0] + "' and --test_file " +
                                       arguments.test_file + " exclude each other; give one of them");
  }
  if (arguments.test_file == "-") {
    input.texts = {.form = TestTexts::Form::kLines, .name = "standard input", .entries = read_lines()};
    const auto first = std::find_if(input.texts.entries.begin(), input.texts.entries.end(),
                                    [](const std::string& line) { return !line.empty(); });
    if (first == input.texts.entries.end())
      throw Error(ErrorCode::kBadData, "standard input: it contains no text; write one text per line");
    if (first->front() == '{') input.texts.form = TestTexts::Form::kJson;
  }
  input.shows = !input.texts.entries.empty();
  input.saves = !input.shows || parsed.explicitly_set.contains("output_dir");
  return input;
}

void write_predictions(Trainer& trainer, const Arguments& arguments, const TestInput& input,
                       RunEvents& events) {
  MetricMap metrics = write_predictions(trainer, TestSet::kTest, arguments, input, arguments.task_name);
  if (trainer.has_test_set(TestSet::kMismatched)) {
    // The names of metrics of MNLI's second (mismatched) test set end with _mm, as in Hugging Face's script run_glue.
    for (const auto& [key, value] :
         write_predictions(trainer, TestSet::kMismatched, arguments, input, arguments.task_name + "-mm")) {
      metrics[key + "_mm"] = value;
    }
  }
  if (!input.shows) print(format_metrics("predict", metrics));
  events.send_labels(trainer.label_names());
  events.send_results("predict", metrics);
  add_results("predict", metrics);
  if (!input.saves) return;
  if (input.shows) {
    trainer.save_metrics("predict", metrics);
  } else {
    save_named_metrics(trainer, arguments, "predict", metrics);
  }
}

void save_named_metrics(Trainer& trainer, const Arguments& arguments, const std::string& split,
                        const MetricMap& metrics) {
  trainer.save_metrics(split, metrics);
  print("wrote " + arguments.output_dir + ": " + split + "_results.json, all_results.json");
}

TrainerParts parts_of(const Arguments& arguments, const TestInput& input, RunEvents& events) {
  TrainerParts parts{.texts = input.texts};
  if (std::shared_ptr<Metric> metric = events.logits_metric(arguments))
    parts.metrics.push_back(std::move(metric));
  return parts;
}

int evaluate_and_predict(const Arguments& arguments, Task task, const TestInput& input, Remarks& remarks,
                         RunEvents& events) {
  download_models(arguments, task == Task::kEvaluate ? RunCommand::kEvaluate : RunCommand::kPredict);
  Trainer trainer(arguments, parts_of(arguments, input, events), task, program_environment());
  if (!show_and_start(trainer, arguments, task, remarks, events)) return 0;
  // Creates the folder first, so that a failure is reported before the predictions are computed.
  if (input.saves) std::filesystem::create_directories(arguments.output_dir);
  if (task == Task::kEvaluate) {
    const MetricMap metrics = trainer.evaluate();
    print(format_metrics("eval", metrics));
    events.send_labels(trainer.label_names());
    events.send_results("eval", metrics);
    add_results("eval", metrics);
    save_named_metrics(trainer, arguments, "eval", metrics);
  }
  if (arguments.do_predict || task == Task::kPredict) write_predictions(trainer, arguments, input, events);
  finish_results();
  return 0;
}

namespace {

int run_task(const std::vector<std::string>& words, Task task, RunEvents& events) {
  const RunCommand command = task == Task::kEvaluate ? RunCommand::kEvaluate : RunCommand::kPredict;
  ParseResult parsed = parse_arguments(words, {.allow_positionals = task == Task::kPredict});
  if (parsed.help) {
    print(command_screen(command_named(to_string(command)), parsed.help_topic));
    return 0;
  }
  set_verbosity(parsed.arguments);
  events.open(parsed.arguments, to_string(command));
  refuse_unused_files(command, parsed);
  std::vector<std::string> notes = parsed.notes;
  if (std::string note = unused_note(command, parsed.explicitly_set); !note.empty())
    notes.push_back(std::move(note));
  Remarks remarks(parsed.warnings, std::move(notes));
  const TestInput input = read_test_input(parsed);
  // For texts on the command line, scores are shown by default.
  if (!parsed.positionals.empty() && parsed.arguments.scores.empty())
    parsed.arguments.scores = "probabilities";
  return evaluate_and_predict(parsed.arguments, task, input, remarks, events);
}

}  // namespace

int run_eval(const std::vector<std::string>& words, RunEvents& events) {
  return run_task(words, Task::kEvaluate, events);
}

int run_predict(const std::vector<std::string>& words, RunEvents& events) {
  return run_task(words, Task::kPredict, events);
}

}  // namespace plimsoll::cli
