// The task of predicting one class per row. Loss: softmax cross entropy. Metrics: accuracy and F1.
#include <algorithm>
#include <array>

#include "tasks/task.h"

namespace plimsoll {
namespace {

class Sums final : public MetricSums {
 public:
  explicit Sums(int64_t num_labels) : confusion_(std::max<int64_t>(num_labels, 1)) {}
  void add(const EvaluatedBatch& batch) override {
    if (!batch.classes.empty()) confusion_.add_logits(batch.logits, batch.classes);
  }
  MetricList metrics(std::span<const std::string_view> names) const override {
    return classification_metrics(confusion_, names);
  }

 private:
  ClassCounts confusion_;
};

constexpr std::array<std::string_view, 2> kMetrics{"accuracy", "f1"};

}  // namespace

const TaskRecord& single_label_task() {
  static const TaskRecord record{
      .problem_type = ProblemType::kSingleLabel,
      .labels = LabelKind::kClass,
      .has_label_smoothing = true,
      .has_chunked_loss = true,
      .build_loss = build_class_loss,
      .default_metrics = kMetrics,
      .new_metric_sums = [](int64_t n, std::span<const std::string>) -> std::unique_ptr<MetricSums> {
        return std::make_unique<Sums>(n);
      },
      .metric_bytes_per_row = 0,
      .format_prediction = [](std::span<const float> logits, std::span<const std::string> names,
                              int64_t) { return label_name(names, most_likely_class(logits)); },
      .probabilities = softmax_of_rows};
  return record;
}

}  // namespace plimsoll
