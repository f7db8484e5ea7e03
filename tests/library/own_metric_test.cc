// Tests metrics that a program defines: their values, when they are called, which of them may select the best
// model, and which names are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

// The fraction of correctly predicted classes, as the built-in accuracy computes it.
class MyAccuracy : public Metric {
 public:
  explicit MyAccuracy(std::string name = "my_accuracy") : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void reset() override {
    right_ = rows_ = 0;
    ++num_resets;
  }
  void add(const MetricBatch& batch) override {
    const auto width = static_cast<size_t>(batch.num_labels);
    EXPECT_EQ(batch.logits.size(), batch.classes.size() * width);
    EXPECT_EQ(batch.sequence_starts.front(), 0);
    for (size_t row = 0; row < batch.classes.size(); ++row) {
      const std::span<const float> logits = batch.logits.subspan(row * width, width);
      right_ += std::ranges::max_element(logits) - logits.begin() == batch.classes[row] ? 1 : 0;
      ++rows_;
    }
  }
  double value() const override { return static_cast<double>(right_) / static_cast<double>(rows_); }

  int num_resets = 0;

 private:
  std::string name_;
  int64_t right_ = 0;
  int64_t rows_ = 0;
};

class OwnMetric : public ::testing::Test {
 protected:
  Arguments arguments() {
    Arguments arguments;
    arguments.config_name = testing::write_tiny_model(folder_, 0.0);
    arguments.tokenizer_name = arguments.config_name;
    arguments.train_file = arguments.validation_file = testing::write_uneven_rows(folder_, 23);
    arguments.output_dir = folder_.path("out");
    arguments.max_steps = 6;
    arguments.per_device_train_batch_size = 4;
    arguments.per_device_eval_batch_size = 4;
    arguments.learning_rate = 1e-2;
    arguments.eval_strategy = "steps";
    arguments.eval_steps = 2;
    arguments.save_strategy = "no";
    arguments.use_cpu = true;
    arguments.num_threads = 1;
    return arguments;
  }
  const testing::TestFolder folder_{"own_metric"};
};

TEST_F(OwnMetric, IsReportedNextToTheOthers) {
  const auto metric = std::make_shared<MyAccuracy>();
  Trainer trainer(arguments(), TrainerParts{.metrics = {metric}});
  const TrainOutput output = trainer.train();
  EXPECT_EQ(metric->num_resets, 3);
  int evaluations = 0;
  for (const LogRecord record : output.log_history) {
    if (!record.values.contains("eval_accuracy")) continue;
    ++evaluations;
    EXPECT_EQ(record.values.at("eval_my_accuracy"), record.values.at("eval_accuracy"));
  }
  EXPECT_EQ(evaluations, 3);
  const MetricMap metrics = trainer.evaluate();
  EXPECT_EQ(metrics.at("eval_my_accuracy"), metrics.at("eval_accuracy"));
}

TEST_F(OwnMetric, ChoosesTheBestModel) {
  // A metric whose value is lower in each evaluation than in the one before.
  class Falling : public MyAccuracy {
   public:
    Falling() : MyAccuracy("falling") {}
    double value() const override { return -num_resets; }
  };
  Arguments given = arguments();
  given.save_strategy = "steps";
  given.save_steps = 2;
  given.metric_for_best_model = "falling";
  given.load_best_model_at_end = true;
  Trainer trainer(given, TrainerParts{.metrics = {std::make_shared<Falling>()}});
  EXPECT_TRUE(trainer.train().best_checkpoint.ends_with("checkpoint-2"));
  given.metric_for_best_model = "eval_falling";
  given.greater_is_better = false;
  given.output_dir = folder_.path("other");
  Trainer other(given, TrainerParts{.metrics = {std::make_shared<Falling>()}});
  EXPECT_TRUE(other.train().best_checkpoint.ends_with("checkpoint-6"));
}

// A metric that returns several values. One of their names changes with each evaluation, so it is not known
// at the start of the run. The value "accuracy" replaces the accuracy that the task itself computes.
class Several : public MyAccuracy {
 public:
  std::map<std::string, double> values() override {
    return {{"accuracy", 2.0}, {"number_" + std::to_string(num_resets), 0.5}, {"resets", num_resets}};
  }
  bool has_fixed_names() const override { return false; }
};

TEST_F(OwnMetric, MayHaveSeveralValues) {
  Arguments given = arguments();
  given.save_strategy = "steps";
  given.save_steps = 2;
  given.metric_for_best_model = "resets";
  given.load_best_model_at_end = true;
  Trainer trainer(given, TrainerParts{.metrics = {std::make_shared<Several>()}});
  EXPECT_TRUE(trainer.train().best_checkpoint.ends_with("checkpoint-6"));
  const MetricMap metrics = trainer.evaluate();
  EXPECT_EQ(metrics.at("eval_accuracy"), 2.0);
  EXPECT_EQ(metrics.at("eval_number_4"), 0.5);
  EXPECT_FALSE(metrics.contains("eval_my_accuracy"));
  given.metric_for_best_model = "number_2";
  given.output_dir = folder_.path("unknown");
  const std::string message = testing::refusal(
      [&] { Trainer(given, TrainerParts{.metrics = {std::make_shared<Several>()}}).train(); },
      ErrorCode::kUsage);
  EXPECT_NE(message.find("number_2: the evaluation has no such metric; it has eval_accuracy"),
            std::string::npos)
      << message;
}

TEST_F(OwnMetric, IsNotCalledWithoutLabelsOrForTheLossAlone) {
  const auto metric = std::make_shared<MyAccuracy>();
  Arguments given = arguments();
  given.test_file = given.validation_file;
  given.do_predict = true;
  Trainer trainer(given, TrainerParts{.metrics = {metric}});
  EXPECT_EQ(trainer.predict().size(), 23U);
  EXPECT_EQ(metric->num_resets, 0);
  given.prediction_loss_only = true;
  Trainer loss_only(given, TrainerParts{.metrics = {metric}});
  EXPECT_FALSE(loss_only.evaluate().contains("eval_my_accuracy"));
  EXPECT_EQ(metric->num_resets, 0);
}

TEST_F(OwnMetric, NamesAreChecked) {
  const auto expect = [&](std::vector<std::shared_ptr<Metric>> metrics, const char* words) {
    const std::string message = testing::refusal(
        [&] { Trainer trainer(arguments(), TrainerParts{.metrics = metrics}); }, ErrorCode::kUsage);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  const auto named = [](const char* name) { return std::make_shared<MyAccuracy>(name); };
  expect({nullptr}, "null pointer");
  expect({named("")}, "consists of letters");
  expect({named("top 2")}, "'top 2': a name consists of letters");
  expect({named("top-2")}, "consists of letters");
  expect({named("gr\xc3\xb6\xc3\x9f"
                "e")},
         "consists of letters");
  for (const char* taken : {"loss", "accuracy", "runtime", "samples_per_second"})
    expect({named(taken)}, "two metrics of this run have the name");
  expect({named("a"), named("b"), named("a")}, "two metrics of this run have the name 'a'");
  Arguments given = arguments();
  given.metric_for_best_model = "top3";
  given.load_best_model_at_end = false;
  EXPECT_NE(testing::refusal([&] { Trainer trainer(given, TrainerParts{.metrics = {named("top2")}}); },
                             ErrorCode::kUsage)
                .find("eval_top2"),
            std::string::npos);
}

// An exception that a metric throws reaches the program, and the Trainer can be used afterwards.
TEST_F(OwnMetric, ItsExceptionsPass) {
  class Failing : public MyAccuracy {
   public:
    void add(const MetricBatch& batch) override {
      if (fails) throw std::runtime_error("metric of the program");
      MyAccuracy::add(batch);
    }
    bool fails = true;
  };
  const auto metric = std::make_shared<Failing>();
  Trainer trainer(arguments(), TrainerParts{.metrics = {metric}});
  EXPECT_THROW(trainer.evaluate(), std::runtime_error);
  metric->fails = false;
  EXPECT_TRUE(trainer.evaluate().contains("eval_my_accuracy"));
}

}  // namespace
}  // namespace plimsoll
