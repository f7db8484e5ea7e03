// The task of predicting numbers. Loss: mean squared error. Metrics: mean squared error, Pearson and Spearman correlation.
#include <fmt/format.h>

#include <array>

#include "tasks/task.h"

namespace plimsoll {
namespace {

class Sums final : public MetricSums {
 public:
  void add(const EvaluatedBatch& batch) override {
    if (!batch.values.empty()) pairs_.add_rows(batch.logits, batch.values);
  }
  MetricList metrics(std::span<const std::string_view> names) const override {
    return regression_metrics(pairs_, names);
  }

 private:
  RegressionPairs pairs_;
};

std::string numbers(std::span<const float> logits, std::span<const std::string>, int64_t) {
  std::string text;
  for (const float value : logits) text += fmt::format("{}{:.3f}", text.empty() ? "" : ",", value);
  return text;
}

constexpr std::array<std::string_view, 3> kMetrics{"mse", "pearson", "spearmanr"};

}  // namespace

const TaskRecord& regression_task() {
  static const TaskRecord record{
      .problem_type = ProblemType::kRegression,
      .labels = LabelKind::kNumbers,
      .has_label_smoothing = false,
      .has_chunked_loss = false,
      .build_loss =
          [](Graph& graph, ValueId logits, const LossOptions& options) {
            return build_value_loss(graph, mse_op(), logits, options);
          },
      .default_metrics = kMetrics,
      .new_metric_sums = [](int64_t, std::span<const std::string>) -> std::unique_ptr<MetricSums> {
        return std::make_unique<Sums>();
      },
      // The metric needs two doubles per sequence, its label and its prediction, and memory to sort both for the rank correlation.
      .metric_bytes_per_row = 64,
      .format_prediction = numbers,
      .probabilities = nullptr};
  return record;
}

}  // namespace plimsoll
