#include "tasks/task.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

TEST(Tasks, HaveDistinctProblemTypesAndLabels) {
  std::set<ProblemType> types;
  std::set<LabelKind> labels;
  for (const TaskRecord* task : tasks()) {
    EXPECT_TRUE(types.insert(task->problem_type).second);
    EXPECT_TRUE(labels.insert(task->labels).second);
    EXPECT_EQ(&task_of(task->problem_type), task);
    EXPECT_EQ(&task_of(task->labels), task);
  }
  EXPECT_EQ(types.size(), kProblemTypes.size());
}

TEST(Tasks, OneLabelIsARegressionUnlessTheModelSaysOtherwise) {
  EXPECT_EQ(default_task(1).problem_type, ProblemType::kRegression);
  EXPECT_EQ(default_task(2).problem_type, ProblemType::kSingleLabel);
}

TEST(Tasks, BuildALossThatVerifies) {
  for (const TaskRecord* task : tasks()) {
    Graph graph("train");
    const Dim rows = is_per_token(task->labels) ? kDimT : kDimB;
    const ValueId logits = graph.add_value("logits", {DType::kF32, Shape{rows, 3}}, Storage::kInput);
    const ValueId loss = add_loss(graph, logits, *task, {.num_labels = 3});
    EXPECT_EQ(graph.value(loss).name, "loss");
    EXPECT_EQ(graph.value(loss).storage, Storage::kOutput);
    EXPECT_NE(graph.find("labels"), kNoValue);
    EXPECT_NE(graph.find("denominator"), kNoValue);
    if (!task->has_logits) {
      add_num_correct(graph, logits);
      EXPECT_EQ(graph.value(graph.find(kNumCorrect)).storage, Storage::kOutput);
    }
    verify(graph, "after add_loss");
  }
}

TEST(Tasks, AreFoundByHuggingFacesNames) {
  for (const char* word : {"single_label_classification", "multi_label_classification", "regression",
                           "token_classification", "causal_lm", "masked_lm"})
    EXPECT_EQ(problem_type_name(parse_task(word).problem_type), word);
  try {
    parse_task("ranking");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("'ranking' is not a problem type"), std::string::npos);
  }
}

TEST(Tasks, FormatPredictions) {
  const std::vector<std::string> names{"bad", "good"};
  const std::array logits{0.5f, 1.25f, 2.0f};
  EXPECT_EQ(task_of(LabelKind::kClass).format_prediction(logits, names, 3), "2");
  EXPECT_EQ(task_of(LabelKind::kClasses).format_prediction(logits, names, 3), "bad,good,2");
  EXPECT_EQ(task_of(LabelKind::kNumbers).format_prediction(logits, {}, 3), "0.500,1.250,2.000");
  const std::array none{-1.0f, -2.0f};
  EXPECT_EQ(task_of(LabelKind::kClasses).format_prediction(none, names, 3), "");
}

TEST(Tasks, AddUpTheirMetrics) {
  const std::array<std::string_view, 1> accuracy{"accuracy"};
  const auto classes = task_of(LabelKind::kClass).new_metric_sums(2, {});
  classes->add({.logits = std::array{0.0f, 1.0f, 1.0f, 0.0f},
                .classes = std::array<int32_t, 2>{1, 1},
                .values = {},
                .cu_seqlens = {}});
  EXPECT_EQ(classes->metrics(accuracy).at(0).second, 0.5);
  const std::array<std::string_view, 1> mse{"mse"};
  const auto numbers = task_of(LabelKind::kNumbers).new_metric_sums(1, {});
  numbers->add(
      {.logits = std::array{1.0f, 3.0f}, .classes = {}, .values = std::array{1.0f, 1.0f}, .cu_seqlens = {}});
  EXPECT_EQ(numbers->metrics(mse).at(0).second, 2.0);
  EXPECT_THROW(numbers->metrics(accuracy), Error);
}

// The probabilities of classes add up to one for each row, the probabilities of several labels per row are independent, and a regression
// has no probabilities.
TEST(Tasks, Probabilities) {
  const std::vector<float> logits{1.0f, 2.0f, 3.0f, -1e4f, 0.0f, 1e4f};
  const std::vector<float> classes = task_of(ProblemType::kTokenClassification).probabilities(logits, 3);
  EXPECT_NEAR(classes[0], 0.09003057, 1e-7);
  EXPECT_NEAR(classes[1], 0.24472847, 1e-7);
  EXPECT_NEAR(classes[2], 0.66524096, 1e-7);
  EXPECT_EQ(classes[3], 0.0f);
  EXPECT_EQ(classes[5], 1.0f);
  EXPECT_EQ(task_of(ProblemType::kSingleLabel).probabilities(logits, 6).size(), 6u);
  const std::vector<float> labels = task_of(ProblemType::kMultiLabel).probabilities(logits, 6);
  EXPECT_NEAR(labels[0], 0.73105858, 1e-7);
  EXPECT_EQ(labels[3], 0.0f);
  EXPECT_EQ(labels[4], 0.5f);
  EXPECT_EQ(labels[5], 1.0f);
  EXPECT_EQ(task_of(ProblemType::kRegression).probabilities, nullptr);
}

}  // namespace
}  // namespace plimsoll
