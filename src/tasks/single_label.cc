// One class per row: softmax cross entropy, accuracy and F1.
#include <algorithm>
#include <array>

#include "graph/ops/ops.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

ValueId build_loss(Graph& graph, ValueId logits, const LossOptions& options) {
  const ValueId denominator = add_denominator(graph, options);
  const ValueId labels = graph.add_input("labels", {DType::kI32, Shape{kDimB}}, {.unused = kNoLabel});
  const ValueId log_p = emit(graph, log_softmax_op(), {logits}, {}, "log_p");
  return emit(graph, nll_op(), {log_p, labels, denominator}, {{"smoothing", options.label_smoothing}},
              "loss");
}

class Sums final : public MetricSums {
 public:
  explicit Sums(int64_t num_labels) : confusion_(std::max<int64_t>(num_labels, 1)) {}
  void add(std::span<const float> logits, const RowLabels& labels) override {
    if (!labels.classes.empty()) confusion_.add_logits(logits, labels.classes);
  }
  MetricList metrics(std::span<const std::string_view> names) const override {
    return classification_metrics(confusion_, names);
  }

 private:
  ConfusionMatrix confusion_;
};

std::string most_likely_class(std::span<const float> logits, std::span<const std::string> names) {
  return label_name(names,
                    static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
}

constexpr std::array<std::string_view, 2> kMetrics{"accuracy", "f1"};

}  // namespace

const TaskRecord& single_label_task() {
  static const TaskRecord record{
      .problem_type = ProblemType::kSingleLabel,
      .head = &kSequenceClassification,
      .labels = LabelKind::kClass,
      .has_label_smoothing = true,
      .has_chunked_loss = true,
      .build_loss = build_loss,
      .default_metrics = kMetrics,
      .new_metric_sums = [](int64_t n) -> std::unique_ptr<MetricSums> { return std::make_unique<Sums>(n); },
      .metric_bytes_per_row = 0,
      .format_prediction = most_likely_class};
  return record;
}

}  // namespace plimsoll
