// Data that a program passes to a Trainer itself, instead of naming files: rows of text or of token ids, whole data
// sets, and metrics. trainer.h uses these types. Rows are values; thread-safety of the classes is stated below.
//
//   // Predicts one text.
//   plimsoll::TrainerParts parts{.data = plimsoll::MemoryData{}};
//   plimsoll::Trainer trainer(arguments, parts, plimsoll::Task::kPredict);
//   std::cout << trainer.predict({{.text = "This was lovely"}}).front().label;
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/error.h"

namespace plimsoll {

// Marks a row, a word or a token that has no class. Losses and metrics ignore it.
inline constexpr int32_t kNoLabel = -100;

// One row of a data set or batch, and its label. Exactly one of `text`, `words` and `ids` is the input. All rows of a
// data set, or of a batch, have the same kind of input and the same kind of label.
struct DataRow {
  // A text, which the model's tokenizer encodes, and optionally a second one. Texts that are too long are cut to
  // max_seq_length tokens.
  std::optional<std::string> text = {};
  std::optional<std::string> text_pair = {};
  // A text that is already split into words, for token classification.
  std::vector<std::string> words = {};
  // Token ids as a tokenizer returns them, with its special tokens and without padding, each from 0 to vocab_size - 1.
  std::vector<int32_t> ids = {};
  // token type (segment) ids: empty (all 0), or one per id, each from 0 to type_vocab_size - 1
  std::vector<int32_t> token_types = {};

  // The label is in `classes` or in `values`; at most one of these two is filled. `classes` contains the ids of classes, from 0 to
  // num_labels - 1: one for the row, or for token classification one per word or token id, where kNoLabel marks a word or token without a
  // class. For a masked language model, Trainer::make_batch() also accepts rows of ids in which the caller has hidden tokens: `classes`
  // then contains the original id of each hidden token and kNoLabel for every other token. If `classes` is empty, Plimsoll itself hides
  // tokens, as in training on files.
  std::vector<int32_t> classes = {};
  // Finite numbers. For a regression they are the targets; for a multi-label task they are 0 or 1 for each label.
  std::vector<float> values = {};
};

// A data set that a program provides. A Trainer reads all rows once, in order and on the thread that constructs it, and keeps only their
// tokens and labels. If num_rows() or row() throws an exception, the constructor of the Trainer throws the same exception.
class DataRows {
 public:
  virtual ~DataRows() = default;
  virtual int64_t num_rows() const = 0;
  // Returns a row of the data set. Requires: 0 <= index < num_rows().
  virtual DataRow row(int64_t index) const = 0;
};

// Returns a data set that contains these rows.
std::shared_ptr<const DataRows> rows_in_memory(std::vector<DataRow> rows);

// The data sets of a Trainer that reads no data files. The setting problem_type determines the task. If it is not
// set, the training rows determine it: rows with classes make it a classification (of words if a row has several
// classes), and rows with values make it a multi-label task if there are label_names, otherwise a regression.
// Without training rows, the task is the one that the model was trained for.
//
// A null pointer means that there is no such set. If the set that the Trainer would use (`train` for Task::kTrain,
// `validation` for kEvaluate, `test` for kPredict) is null, the program makes the batches with
// Trainer::make_batch(), and the plan has room for batches of max_seq_length tokens per row: per_device_train_batch_size
// rows for training, and per_device_eval_batch_size rows for passes without gradients.
struct MemoryData {
  std::shared_ptr<const DataRows> train = {};
  std::shared_ptr<const DataRows> validation = {};
  std::shared_ptr<const DataRows> test = {};
  // The names of the labels by id. If empty: those of the model if it was trained with the same number of labels,
  // otherwise LABEL_0, LABEL_1, ...
  std::vector<std::string> label_names = {};
};

// The outputs and labels of one batch of an evaluation, with R rows and K labels. For token classification, a row is
// one token.
struct MetricBatch {
  int64_t num_labels = 0;         // K, the number of classes, or of numbers per row for a regression
  std::span<const float> logits;  // logits, [R, K]
  // Class of each row, [R], with kNoLabel for a row without a class; empty if labels are numbers.
  std::span<const int32_t> classes;
  std::span<const float> values;  // numbers that are the labels, [R, K]; empty if labels are classes
  // [number of sequences + 1]: for each sequence the index of its first token, and at the end the number of tokens.
  std::span<const int32_t> sequence_starts;
};

// A metric that a program defines. Every evaluation with labels reports the metric's value as eval_NAME, and every prediction as
// predict_NAME, in addition to the metrics of the task; --metric_for_best_model may name the metric. The thread that evaluates calls its
// functions: reset(), then add() for each batch in the order of the rows, then values(). An exception ends the evaluation; an Error with
// kInterrupted ends a training as request_stop() does. Language models are refused (kUsage), because their evaluation computes no logits.
class Metric {
 public:
  virtual ~Metric() = default;
  // The name may contain letters, digits and '_', and must differ from those of the other metrics of the run.
  virtual std::string name() const = 0;
  virtual void reset() = 0;
  // Adds the rows of a batch. The spans are valid only during the call.
  virtual void add(const MetricBatch& batch) = 0;
  virtual double value() const = 0;
  // Returns all values that are reported, by name. A class may override this function to report several values, or values whose names are
  // not known in advance; has_fixed_names() must then return false, and --metric_for_best_model is checked at the first evaluation. A value
  // replaces that of a metric of the task with the same name.
  virtual std::map<std::string, double> values() { return {{name(), value()}}; }
  // Returns true if every later call of values() returns exactly one value, whose name is name(). An object may return false at
  // first and true later, for example when the program that computes its values has ended. If an evaluation after this change
  // lacks the metric that --metric_for_best_model names, the training saves a checkpoint and stops, so that it can be resumed.
  virtual bool has_fixed_names() const { return true; }
};

// Test data that a user types instead of naming a --test_file. It has the columns that such a file would have.
struct TestTexts {
  // kLines: an entry is a text; a tab separates the two texts of a pair. kWords: an entry is a text; if the model
  // reads pairs, two entries are a pair. kJson: an entry is a JSON object, as a line of a .jsonl file.
  // For token classification, blanks separate the words of a text.
  enum class Form : uint8_t { kLines, kWords, kJson };
  Form form = Form::kWords;
  std::string name = "the texts";  // name of the texts in error messages
  std::vector<std::string> entries = {};
};

// The parts of a run that a program provides in addition to the arguments.
struct TrainerParts {
  // If `data` is set, the Trainer reads no data file, and the arguments may name none.
  std::optional<MemoryData> data = {};
  TestTexts texts = {};  // if it contains texts, they are predicted instead of a --test_file
  std::vector<std::shared_ptr<Metric>> metrics = {};
};

}  // namespace plimsoll
