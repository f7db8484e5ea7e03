// Describes a training task as one record: its head, labels, loss and metrics, and how its predictions are
// formatted. Other code uses the record and never distinguishes problem types itself. Each record is defined in
// a file of this folder, and tasks.inc lists them. Thread-safe, because everything is constant data or a pure
// function, except that a MetricSums may be used by one thread only.
//
// Shape letters: B sequences, K labels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/problem_type.h"
#include "graph/ir/graph.h"
#include "graph/ops/ops.h"
#include "metrics/metrics.h"

namespace plimsoll {

struct LossOptions {
  DType dtype = DType::kF32;  // data type of numeric labels and of the denominator of the loss
  int64_t num_labels = 0;
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;  // factor of the z-loss; must be 0 unless each label is a token
};

// The results of one evaluation batch. There is one row per prediction: per sequence, or per token if tokens
// have labels. For a task without logits, the program outputs the number of correct predictions instead.
struct EvaluatedBatch {
  // [rows, K], the logits. Empty for a task without logits.
  std::span<const float> logits;
  // [rows], the label of each row, or kNoLabel for a row without one. Empty for numeric labels.
  std::span<const int32_t> classes;
  // [rows, K], numeric labels. Empty if labels are classes.
  std::span<const float> values;
  // [B + 1]: the index of the first token of each sequence, then the total number of tokens.
  std::span<const int32_t> cu_seqlens;
  double loss = 0.0;        // mean loss over the rows with a label
  int64_t num_labels = 0;   // number of rows with a label
  int64_t num_correct = 0;  // number of rows that are predicted correctly
};

// Accumulates the metrics of an evaluation. Batches are added in the order of the rows.
class MetricSums {
 public:
  virtual ~MetricSums() = default;
  virtual void add(const EvaluatedBatch& batch) = 0;
  // Returns the metrics with these names, in the order of `names`. Errors: kUsage for a name that this task lacks.
  virtual MetricList metrics(std::span<const std::string_view> names) const = 0;
};

struct TaskRecord {
  ProblemType problem_type;
  const HeadKind& head() const { return *record_of(problem_type).head; }
  LabelKind labels = LabelKind::kClass;
  // State whether the loss supports label smoothing, and whether it can be computed in chunks of rows, so that the logits of all rows need
  // not be in memory at the same time.
  bool has_label_smoothing = false;
  bool has_chunked_loss = false;
  // False if the logits of a batch are too large to be copied to the host, as for language models, which have a
  // logit per token and vocabulary entry. The program of an evaluation then has the output kNumCorrect instead
  // of logits.
  bool has_logits = true;
  // Declares the inputs `labels`, `denominator` and, if the loss needs it, `num_sequences`. Returns the loss of
  // `logits`, a value of shape [1].
  ValueId (*build_loss)(Graph& graph, ValueId logits, const LossOptions& options) = nullptr;
  // The metrics that an evaluation computes if the user names none.
  std::span<const std::string_view> default_metrics;
  // Creates an object that accumulates the metrics of one evaluation. `names` are the label names by id; an id
  // without a name is shown as a number.
  std::unique_ptr<MetricSums> (*new_metric_sums)(int64_t num_labels,
                                                 std::span<const std::string> names) = nullptr;
  // Bytes that MetricSums stores per row. Rank correlations such as Spearman's need every row, not only sums.
  int64_t metric_bytes_per_row = 0;
  // Returns the prediction for one sequence as text. `logits` has the shape [K], or [words, K] if tokens have
  // labels.
  std::string (*format_prediction)(std::span<const float> logits, std::span<const std::string> names,
                                   int64_t num_labels) = nullptr;
  // Converts the logits of one sequence to probabilities, in the same order. Null if the task has no
  // probabilities.
  std::vector<float> (*probabilities)(std::span<const float> logits, int64_t num_labels) = nullptr;
};

// The name of the output of an evaluation program that returns no logits: the number of correctly predicted
// rows, as i32[1].
inline constexpr std::string_view kNumCorrect = "num_correct";

// Returns the softmax of each row of `num_labels` logits, or the sigmoid of each logit.
std::vector<float> softmax_of_rows(std::span<const float> logits, int64_t num_labels);
std::vector<float> sigmoid_of_each(std::span<const float> logits, int64_t num_labels);

// Declares the input `denominator`, the number by which the sum of the losses is divided. It is written with each batch.
ValueId add_denominator(Graph& graph, const LossOptions& options);

// Declares the inputs of a softmax cross entropy over the rows of `logits` [rows, K], one class per row, and returns the
// loss. Rows without a class add nothing.
ValueId build_class_loss(Graph& graph, ValueId logits, const LossOptions& options);

// Returns the index of the largest logit, the first on ties.
size_t most_likely_class(std::span<const float> logits);

// Adds the task's loss over `logits` [B, K] to a forward graph, marks the loss as an output of the graph and returns it.
ValueId add_loss(Graph& graph, ValueId logits, const TaskRecord& task, const LossOptions& options);

// The name of an additional output of training programs with a z-loss. Its value is the z-loss, which the loss
// includes.
inline constexpr std::string_view kZLossOutput = "z_loss";

// Adds the output kNumCorrect to the graph of an evaluation, which already has a loss. Requires: one class per row.
void add_num_correct(Graph& graph, ValueId logits);

// Returns every task, in the order in which messages list them.
std::span<const TaskRecord* const> tasks();

const TaskRecord& task_of(ProblemType problem_type);
const TaskRecord& task_of(LabelKind labels);

// Returns the task of this problem type. Errors: kUsage for another word.
const TaskRecord& parse_task(std::string_view problem_type);

// Returns the task for a model whose configuration does not state its problem type. As in Hugging Face's
// models, one label means regression and several labels mean classification.
const TaskRecord& default_task(int64_t num_labels);

// Returns the name of a label, or its id if it has none.
std::string label_name(std::span<const std::string> names, size_t id);

// The following function builds a loss with numeric labels. Thread-safe: a pure function.

// Returns the loss, a value of shape [1]. The op `op` computes it from logits [B, K], labels [B, K], the
// denominator and the number of sequences.
inline ValueId build_value_loss(Graph& graph, const OpSchema& op, ValueId logits,
                                const LossOptions& options) {
  const ValueId denominator = add_denominator(graph, options);
  const ValueId labels = graph.add_input("labels", {options.dtype, Shape{kDimB, options.num_labels}});
  const ValueId rows =
      graph.add_input("num_sequences", {DType::kI32, Shape{1}}, {.source = InputSource::kNumSequences});
  return emit(graph, op, {logits, labels, denominator, rows}, {}, "loss");
}

}  // namespace plimsoll
