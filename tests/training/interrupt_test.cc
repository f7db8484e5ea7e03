// Tests an interrupt during an evaluation: the evaluation ends after the current batch, the state is saved,
// and the resumed run completes the evaluation, with the log and the weights of an uninterrupted one. Also
// tests which run a stop request applies to.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

// Requests a stop in the evaluation after step `step`.
class StopInEvaluation : public Callback {
 public:
  StopInEvaluation(Trainer& trainer, int64_t step) : trainer_(trainer), step_(step) {}
  void on_step_end(const StepInfo& info, TrainControl&) override { now_ = info.step; }
  void on_evaluate_progress(int64_t, int64_t) override {
    if (now_ != step_) return;
    trainer_.request_stop();
    ++batches;
  }
  void on_evaluate(const StepInfo& info, const MetricMap&, TrainControl&) override {
    finished = finished || info.step == step_;
  }
  int batches = 0;
  bool finished = false;

 private:
  Trainer& trainer_;
  int64_t step_;
  int64_t now_ = 0;
};

Arguments evaluating_arguments(const std::string& model, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments(model, output_dir);
  arguments.max_steps = 6;
  arguments.per_device_eval_batch_size = 4;
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 2;
  arguments.save_steps = 2;
  arguments.eval_on_start = true;
  arguments.load_best_model_at_end = true;
  arguments.metric_for_best_model = "loss";
  arguments.greater_is_better = false;
  return arguments;
}

TEST(Interrupt, EndsAnEvaluationAfterItsBatchAndGoesOnBitForBit) {
  const TestFolder folder("interrupt_evaluation");
  const std::string model = testing::write_tiny_model(folder);
  const TrainOutput whole = Trainer(evaluating_arguments(model, folder.path("whole"))).train();
  // Interrupts the evaluation before the first step, one between two steps, and the one after the last step.
  for (const int64_t step : {0, 2, 6}) {
    SCOPED_TRACE("stopped in the evaluation after step " + std::to_string(step));
    Arguments arguments = evaluating_arguments(model, folder.path("stopped" + std::to_string(step)));
    {
      Trainer trainer(arguments);
      const auto stop = std::make_shared<StopInEvaluation>(trainer, step);
      trainer.add_callback(stop);
      const TrainOutput output = trainer.train();
      EXPECT_TRUE(output.interrupted);
      EXPECT_EQ(output.step, step);
      // plan.json is written at the start of the run, so it exists although the run was interrupted.
      EXPECT_NE(read_file(arguments.output_dir + "/plan.json").find("\"total_bytes\""), std::string::npos);
      trainer.save_reports(output);
      EXPECT_FALSE(read_file(arguments.output_dir + "/memory.json").empty());
      EXPECT_TRUE(std::filesystem::exists(arguments.output_dir + "/log.jsonl"));
      EXPECT_EQ(stop->batches, 1);
      EXPECT_FALSE(stop->finished);
      for (const LogRecord& record : output.log_history)
        EXPECT_FALSE(record.step == step && record.values.contains("eval_loss"));
    }
    arguments.resume_from_checkpoint = "True";
    Trainer trainer(arguments);
    const TrainOutput output = trainer.train();
    EXPECT_FALSE(output.interrupted);
    EXPECT_EQ(stable_log(output.log_history), stable_log(whole.log_history));
    const std::string name = whole.best_checkpoint.substr(whole.best_checkpoint.rfind('/'));
    EXPECT_EQ(output.best_checkpoint, arguments.output_dir + name);
    for (const char* file : {"/checkpoint-6/model.safetensors", "/checkpoint-6/optimizer.safetensors"}) {
      const std::string expected = read_file(folder.path("whole") + file);
      ASSERT_FALSE(expected.empty());
      EXPECT_TRUE(read_file(arguments.output_dir + file) == expected) << file;
    }
    // The resumed run completes the interrupted evaluation. The checkpoint of that step must then contain the
    // result of the evaluation.
    EXPECT_NE(read_file(arguments.output_dir + "/checkpoint-2/trainer_state.json").find("\"step\": 2"),
              std::string::npos);
    const std::string state = read_file(arguments.output_dir + "/checkpoint-6/run_state.json");
    EXPECT_NE(state.find("\"evaluation\": false"), std::string::npos) << state;
  }
}

// Returns arguments with which one Trainer can make several runs in the same output folder.
Arguments repeated_arguments(const TestFolder& folder) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.max_steps = 4;
  arguments.save_strategy = "no";
  // A run that is stopped saves a checkpoint even if save_strategy is "no". The next run in the same folder
  // must be permitted to replace it.
  arguments.replace_checkpoints = true;
  return arguments;
}

TEST(Interrupt, AskedForBeforeARunHoldsForThatOneAlone) {
  const TestFolder folder("interrupt_before");
  const Arguments arguments = repeated_arguments(folder);
  Trainer trainer(arguments);
  trainer.request_stop();
  const TrainOutput stopped = trainer.train();
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.step, 1);
  EXPECT_EQ(stopped.last_checkpoint, arguments.output_dir + "/checkpoint-1");
  const TrainOutput whole = trainer.train();
  EXPECT_FALSE(whole.interrupted);
  EXPECT_EQ(whole.step, arguments.max_steps);
}

// A callback that requests a stop after the second step and then throws.
class StopAndThrow : public Callback {
 public:
  explicit StopAndThrow(Trainer& trainer) : trainer_(trainer) {}
  void on_step_end(const StepInfo& info, TrainControl&) override {
    if (info.step != 2 || !is_armed) return;
    trainer_.request_stop();
    throw std::runtime_error("a callback's own error");
  }
  bool is_armed = true;

 private:
  Trainer& trainer_;
};

TEST(Interrupt, EndsWithTheRunThatThrew) {
  const TestFolder folder("interrupt_threw");
  const Arguments arguments = repeated_arguments(folder);
  Trainer trainer(arguments);
  const auto fault = std::make_shared<StopAndThrow>(trainer);
  trainer.add_callback(fault);
  EXPECT_THROW(trainer.train(), std::runtime_error);
  fault->is_armed = false;
  const TrainOutput whole = trainer.train();
  EXPECT_FALSE(whole.interrupted);
  EXPECT_EQ(whole.step, arguments.max_steps);
}

// Another thread requests stops all the time while runs start and end. Each run must be interrupted after its
// first step.
TEST(Interrupt, MayBeAskedForByAnyThreadAtAnyTime) {
  const TestFolder folder("interrupt_thread");
  const Arguments arguments = repeated_arguments(folder);
  Trainer trainer(arguments);
  std::atomic<bool> is_done{false};
  std::atomic<int64_t> num_asked{0};
  std::thread asks([&] {
    for (; !is_done; ++num_asked) trainer.request_stop();
  });
  for (int run = 0; run < 5; ++run) {
    const int64_t before = num_asked;
    while (num_asked == before) std::this_thread::yield();
    const TrainOutput output = trainer.train();
    EXPECT_TRUE(output.interrupted);
    EXPECT_EQ(output.step, 1);
  }
  is_done = true;
  asks.join();
}

}  // namespace
}  // namespace plimsoll
