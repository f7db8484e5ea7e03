#include "tasks/task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "graph/ops/ops.h"

namespace plimsoll {

#define PLIMSOLL_TASK(function) const TaskRecord& function();
#include "tasks/tasks.inc"
#undef PLIMSOLL_TASK

namespace {

template <typename Wanted>
const TaskRecord& find_task(const Wanted& is_wanted) {
  const auto all = tasks();
  const auto found = std::find_if(all.begin(), all.end(), is_wanted);
  PLIMSOLL_CHECK(found != all.end(), "the table of tasks has no task with the requested problem type");
  return **found;
}

}  // namespace

std::span<const TaskRecord* const> tasks() {
#define PLIMSOLL_TASK(function) &function(),
  static const std::array all{
#include "tasks/tasks.inc"
  };
#undef PLIMSOLL_TASK
  return all;
}

ValueId add_denominator(Graph& graph, const LossOptions& options) {
  return graph.add_input("denominator", {options.dtype, Shape{1}}, {.source = InputSource::kDenominator});
}

ValueId build_class_loss(Graph& graph, ValueId logits, const LossOptions& options) {
  const ValueId denominator = add_denominator(graph, options);
  const Dim rows = graph.value(logits).type.shape[0];
  const ValueId labels = graph.add_input("labels", {DType::kI32, Shape{rows}}, {.unused = kNoLabel});
  if (options.z_coefficient > 0.0) {
    const std::array<std::string, 2> names{"loss", std::string(kZLossOutput)};
    const std::vector<ValueId> losses =
        emit_all(graph, softmax_cross_entropy_op(), {logits, labels, denominator},
                 {{"smoothing", options.label_smoothing}, {kZCoefficient, options.z_coefficient}}, names);
    graph.value(losses[ClassLossOp::kZLoss]).storage = Storage::kOutput;
    return losses[ClassLossOp::kLoss];
  }
  const ValueId log_p = emit(graph, log_softmax_op(), {logits}, {}, "log_p");
  return emit(graph, nll_op(), {log_p, labels, denominator}, {{"smoothing", options.label_smoothing}},
              "loss");
}

std::vector<float> softmax_of_rows(std::span<const float> logits, int64_t num_labels) {
  const auto width = static_cast<size_t>(num_labels);
  std::vector<float> result(logits.begin(), logits.end());
  for (size_t at = 0; at + width <= result.size(); at += width) {
    const std::span<float> row(result.data() + at, width);
    const float largest = *std::max_element(row.begin(), row.end());
    // The sum is taken in double precision, so that the probabilities of many labels add up to one.
    double sum = 0;
    for (float& value : row) sum += value = std::exp(value - largest);
    for (float& value : row) value = static_cast<float>(value / sum);
  }
  return result;
}

std::vector<float> sigmoid_of_each(std::span<const float> logits, int64_t) {
  std::vector<float> result(logits.begin(), logits.end());
  for (float& value : result) value = 1.0f / (1.0f + std::exp(-value));
  return result;
}

size_t most_likely_class(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

ValueId add_loss(Graph& graph, ValueId logits, const TaskRecord& task, const LossOptions& options) {
  graph.set_module("loss");
  const ValueId loss = task.build_loss(graph, logits, options);
  graph.value(loss).storage = Storage::kOutput;
  return loss;
}

void add_num_correct(Graph& graph, ValueId logits) {
  const ValueId count = emit(graph, count_correct_op(), {logits, graph.input("labels")}, {}, kNumCorrect);
  graph.value(count).storage = Storage::kOutput;
}

const TaskRecord& task_of(ProblemType problem_type) {
  return find_task([&](const TaskRecord* task) { return task->problem_type == problem_type; });
}

const TaskRecord& task_of(LabelKind labels) {
  return find_task([&](const TaskRecord* task) { return task->labels == labels; });
}

const TaskRecord& parse_task(std::string_view problem_type) {
  const std::optional<ProblemType> found = find_problem_type(problem_type);
  if (found) return task_of(*found);
  std::vector<std::string_view> names;
  for (const TaskRecord* task : tasks()) names.push_back(problem_type_name(task->problem_type));
  throw_error(ErrorCode::kUsage, "'{}' is not a problem type; Plimsoll has {}", problem_type,
              fmt::join(names, ", "));
}

const TaskRecord& default_task(int64_t num_labels) {
  return task_of(num_labels == 1 ? LabelKind::kNumbers : LabelKind::kClass);
}

std::string label_name(std::span<const std::string> names, size_t id) {
  return id < names.size() ? names[id] : std::to_string(id);
}

}  // namespace plimsoll
