// The task of predicting one class per word, as in named entity recognition: softmax cross entropy at the first
// token of each word, and the entity metrics of seqeval.
#include <array>

#include "metrics/entities.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

class Sums final : public MetricSums {
 public:
  Sums(int64_t num_labels, std::span<const std::string> names)
      : num_labels_(static_cast<size_t>(num_labels)), counts_(num_labels, names) {}

  void add(const EvaluatedBatch& batch) override {
    for (size_t i = 0; i + 1 < batch.cu_seqlens.size(); ++i) {
      std::vector<int32_t> labels;
      std::vector<int32_t> predictions;
      for (auto token = static_cast<size_t>(batch.cu_seqlens[i]);
           token < static_cast<size_t>(batch.cu_seqlens[i + 1]); ++token) {
        if (batch.classes[token] == kNoLabel) continue;
        labels.push_back(batch.classes[token]);
        const size_t best = most_likely_class(batch.logits.subspan(token * num_labels_, num_labels_));
        predictions.push_back(static_cast<int32_t>(best));
      }
      counts_.add_sequence(labels, predictions);
    }
  }

  MetricList metrics(std::span<const std::string_view> names) const override {
    return entity_metrics(counts_, names);
  }

 private:
  size_t num_labels_;
  EntityCounts counts_;
};

std::string class_of_each_word(std::span<const float> logits, std::span<const std::string> names,
                               int64_t num_labels) {
  const auto width = static_cast<size_t>(num_labels);
  std::string text;
  for (size_t at = 0; at < logits.size(); at += width)
    text += (at == 0 ? "" : " ") + label_name(names, most_likely_class(logits.subspan(at, width)));
  return text;
}

constexpr std::array<std::string_view, 4> kMetrics{"precision", "recall", "f1", "accuracy"};

}  // namespace

const TaskRecord& token_classification_task() {
  static const TaskRecord record{
      .problem_type = ProblemType::kTokenClassification,
      .labels = LabelKind::kClassPerToken,
      .has_label_smoothing = true,
      .has_chunked_loss = false,  // a token classifier has few classes, so its logits need no chunks
      .build_loss = build_class_loss,
      .default_metrics = kMetrics,
      .new_metric_sums = [](int64_t n, std::span<const std::string> names) -> std::unique_ptr<MetricSums> {
        return std::make_unique<Sums>(n, names);
      },
      .metric_bytes_per_row = 0,
      .format_prediction = class_of_each_word,
      .probabilities = softmax_of_rows};
  return record;
}

}  // namespace plimsoll
