// The task of multi-label classification, in which each sequence may have any number of classes. Loss: binary cross
// entropy per class. Metrics: F1, and the fraction of sequences whose classes are all predicted correctly.
#include <algorithm>
#include <array>

#include "tasks/task.h"

namespace plimsoll {
namespace {

class Sums final : public MetricSums {
 public:
  explicit Sums(int64_t num_labels) : counts_(std::max<int64_t>(num_labels, 1)) {}
  void add(const EvaluatedBatch& batch) override {
    if (!batch.values.empty()) counts_.add_logits(batch.logits, batch.values);
  }
  MetricList metrics(std::span<const std::string_view> names) const override {
    return multi_label_metrics(counts_, names);
  }

 private:
  MultiLabelCounts counts_;
};

std::string likely_classes(std::span<const float> logits, std::span<const std::string> names, int64_t) {
  std::string text;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > 0.0f) text += (text.empty() ? "" : ",") + label_name(names, i);
  }
  return text;
}

constexpr std::array<std::string_view, 2> kMetrics{"accuracy", "f1"};

}  // namespace

const TaskRecord& multi_label_task() {
  static const TaskRecord record{
      .problem_type = ProblemType::kMultiLabel,
      .labels = LabelKind::kClasses,
      .has_label_smoothing = false,
      .has_chunked_loss = false,
      .build_loss =
          [](Graph& graph, ValueId logits, const LossOptions& options) {
            return build_value_loss(graph, bce_with_logits_op(), logits, options);
          },
      .default_metrics = kMetrics,
      .new_metric_sums = [](int64_t n, std::span<const std::string>) -> std::unique_ptr<MetricSums> {
        return std::make_unique<Sums>(n);
      },
      .metric_bytes_per_row = 0,
      .format_prediction = likely_classes,
      .probabilities = sigmoid_of_each};
  return record;
}

}  // namespace plimsoll
