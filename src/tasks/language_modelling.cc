// The tasks of language modelling: predicting the next token at every token (causal), or the tokens that a mask
// hides (masked). Both use softmax cross entropy over the vocabulary. The metrics are perplexity and the
// fraction of correctly predicted tokens, as transformers' run_clm and run_mlm report them.
#include <array>
#include <cmath>

#include "tasks/task.h"

namespace plimsoll {
namespace {

// Adds up the loss over all labels, because perplexity is the exponential of the mean loss per label, and
// counts correct predictions.
class Sums final : public MetricSums {
 public:
  void add(const EvaluatedBatch& batch) override {
    loss_ += batch.loss * static_cast<double>(batch.num_labels);
    num_labels_ += batch.num_labels;
    num_correct_ += batch.num_correct;
  }

  MetricList metrics(std::span<const std::string_view> names) const override {
    const auto labels = static_cast<double>(std::max<int64_t>(num_labels_, 1));
    MetricList list;
    for (const std::string_view name : names) {
      if (name == "perplexity") {
        list.emplace_back(name, std::exp(loss_ / labels));
      } else if (name == "accuracy") {
        list.emplace_back(name, static_cast<double>(num_correct_) / labels);
      } else {
        throw_error(
            ErrorCode::kUsage,
            "language modelling has the metrics perplexity and accuracy, not '{}'; choose one of these",
            name);
      }
    }
    return list;
  }

 private:
  double loss_ = 0.0;
  int64_t num_labels_ = 0;
  int64_t num_correct_ = 0;
};

// Returns the id of the most likely token for each row of logits.
std::string most_likely_ids(std::span<const float> logits, std::span<const std::string>,
                            int64_t num_outputs) {
  const auto width = static_cast<size_t>(num_outputs);
  std::string text;
  for (size_t at = 0; at < logits.size(); at += width) {
    if (at > 0) text += ' ';
    text += std::to_string(most_likely_class(logits.subspan(at, width)));
  }
  return text;
}

constexpr std::array<std::string_view, 2> kMetrics{"accuracy", "perplexity"};

TaskRecord language_task(ProblemType problem_type, LabelKind labels) {
  return {.problem_type = problem_type,
          .labels = labels,
          .has_label_smoothing = true,
          .has_chunked_loss = true,
          .has_logits = false,
          .build_loss = build_class_loss,
          .default_metrics = kMetrics,
          .new_metric_sums = [](int64_t, std::span<const std::string>) -> std::unique_ptr<MetricSums> {
            return std::make_unique<Sums>();
          },
          .metric_bytes_per_row = 0,
          .format_prediction = most_likely_ids,
          .probabilities = softmax_of_rows};
}

}  // namespace

const TaskRecord& causal_lm_task() {
  static const TaskRecord record = language_task(ProblemType::kCausalLm, LabelKind::kNextToken);
  return record;
}

const TaskRecord& masked_lm_task() {
  static const TaskRecord record = language_task(ProblemType::kMaskedLm, LabelKind::kMaskedToken);
  return record;
}

}  // namespace plimsoll
