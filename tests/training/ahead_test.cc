// Tests runs that enqueue the next step before they read the results of the previous one, as runs on a GPU do.
// The tests simulate this on a CPU. Such a run must have the same log, weights and errors as a run that reads
// the results of each step at once, even if a callback requests an evaluation, a checkpoint or the end of the
// run in between, and if another run resumes from there.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "plimsoll/trainer.h"
#include "run/run_setup.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"
#include "train/session.h"
#include "train/train_loop.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

enum class Reads : uint8_t { kAtOnce, kAhead };

// A callback that requests evaluations, checkpoints and a stop, each after a step at which the training loop
// itself would not do this.
class Asks : public Callback {
 public:
  explicit Asks(int64_t stop_after) : stop_after_(stop_after) {}
  void on_step_end(const StepInfo& info, TrainControl& control) override {
    steps.push_back(info);
    control.evaluate = info.step == 3 || info.step == 4;
    control.save = info.step == 4 || info.step == 7;
    control.stop = info.step == stop_after_;
  }
  std::vector<StepInfo> steps;

 private:
  int64_t stop_after_;
};

struct Ran {
  TrainOutput output;
  std::vector<StepInfo> steps;
  std::string error;
};

RunSetup setup_of(Arguments arguments, Reads reads) {
  if (reads == Reads::kAhead) arguments.output_dir += "_ahead";
  resolve_arguments(arguments);
  return prepare_run(arguments, RunPurpose::kTrain, {}, posix_file_system());
}

void train(const Arguments& arguments, Reads reads, Ran& ran, const std::shared_ptr<Callback>& callback) {
  Session session(setup_of(arguments, reads), posix_file_system(), {.runs_ahead = reads == Reads::kAhead});
  session.allocate();
  TrainLoop loop(session, {callback});
  ran.output = loop.run();
}

Ran run(const Arguments& arguments, Reads reads, int64_t stop_after = -1) {
  const auto asks = std::make_shared<Asks>(stop_after);
  Ran ran;
  try {
    train(arguments, reads, ran, asks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFinite) << error.what();
    ran.error = error.what();
  }
  ran.steps = asks->steps;
  return ran;
}

void expect_same_file(const Arguments& arguments, const std::string& name) {
  const std::string expected = read_file(arguments.output_dir + name);
  ASSERT_FALSE(expected.empty()) << name;
  EXPECT_TRUE(read_file(arguments.output_dir + "_ahead" + name) == expected) << name;
}

void expect_same(const Arguments& arguments, const Ran& at_once, const Ran& ahead) {
  EXPECT_EQ(at_once.error, ahead.error);
  EXPECT_EQ(stable_log(at_once.output.log_history), stable_log(ahead.output.log_history));
  EXPECT_EQ(at_once.output.step, ahead.output.step);
  ASSERT_EQ(at_once.steps.size(), ahead.steps.size());
  for (size_t i = 0; i < ahead.steps.size(); ++i) {
    const StepInfo &a = at_once.steps[i], &b = ahead.steps[i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.loss, b.loss) << a.step;
    EXPECT_EQ(a.learning_rate, b.learning_rate) << a.step;
    EXPECT_EQ(a.num_tokens, b.num_tokens) << a.step;
    EXPECT_EQ(a.loss_scale, b.loss_scale) << a.step;
    EXPECT_EQ(a.skipped, b.skipped) << a.step;
    EXPECT_EQ(a.epoch, b.epoch) << a.step;
  }
  for (const auto& entry : std::filesystem::directory_iterator(arguments.output_dir)) {
    const std::string name = "/" + entry.path().filename().string();
    if (!name.starts_with("/checkpoint-")) continue;
    expect_same_file(arguments, name + "/model.safetensors");
    expect_same_file(arguments, name + "/optimizer.safetensors");
  }
}

Arguments arguments_of(const std::string& model, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments(model, output_dir);
  arguments.device = "cpu";
  arguments.logging_steps = 1;
  arguments.save_strategy = "no";
  arguments.eval_strategy = "steps";
  arguments.eval_steps = 6;
  return arguments;
}

TEST(Ahead, EveryStepLeavesWhatItLeavesWhenReadAtOnce) {
  const TestFolder folder("ahead");
  const std::string model = testing::write_tiny_model(folder);
  for (const int64_t accumulation : {1, 3}) {
    for (const bool in_backward : {false, true}) {
      if (accumulation > 1 && in_backward) continue;
      SCOPED_TRACE(accumulation);
      SCOPED_TRACE(in_backward);
      Arguments arguments = arguments_of(
          model, folder.path("run" + std::to_string(accumulation) + (in_backward ? "_in_backward" : "")));
      arguments.gradient_accumulation_steps = accumulation;
      arguments.optimizer_in_backward = in_backward;
      if (in_backward) arguments.max_grad_norm = 0;
      const Ran at_once = run(arguments, Reads::kAtOnce);
      ASSERT_EQ(at_once.steps.size(), 12u) << at_once.error;
      expect_same(arguments, at_once, run(arguments, Reads::kAhead));
    }
  }
}

TEST(Ahead, ARunThatIsStoppedGoesOnWithTheSameBits) {
  const TestFolder folder("ahead_stop");
  Arguments arguments = arguments_of(testing::write_tiny_model(folder), folder.path("run"));
  arguments.save_strategy = "steps";
  arguments.save_steps = 5;
  const Ran at_once = run(arguments, Reads::kAtOnce, 8);
  EXPECT_EQ(at_once.output.step, 8);
  expect_same(arguments, at_once, run(arguments, Reads::kAhead, 8));
  arguments.resume_from_checkpoint = "True";
  const Ran rest = run(arguments, Reads::kAtOnce);
  EXPECT_EQ(rest.output.step, 12);
  expect_same(arguments, rest, run(arguments, Reads::kAhead));
}

TEST(Ahead, SkippedStepsMoveTheScheduleNoFurther) {
  const TestFolder folder("ahead_fp16");
  Arguments arguments = arguments_of(testing::write_tiny_model(folder), folder.path("run"));
  arguments.kernels = {"ref"};
  arguments.fp16 = true;
  arguments.config_overrides["initializer_range"] = "1.0";
  const Ran at_once = run(arguments, Reads::kAtOnce);
  ASSERT_FALSE(at_once.steps.empty());
  EXPECT_TRUE(at_once.steps.front().skipped);
  EXPECT_FALSE(at_once.steps.back().skipped);
  expect_same(arguments, at_once, run(arguments, Reads::kAhead));
}

TEST(Ahead, WhatIsNotFiniteIsNamedWithItsStepAndSamples) {
  const TestFolder folder("ahead_not_finite");
  const std::string model = testing::write_tiny_model(folder);
  for (const int64_t accumulation : {1, 3}) {
    SCOPED_TRACE(accumulation);
    Arguments arguments = arguments_of(model, folder.path("run" + std::to_string(accumulation)));
    arguments.gradient_accumulation_steps = accumulation;
    arguments.learning_rate = 1e30;
    arguments.lr_scheduler_type = "constant";
    arguments.warmup_steps = 0;
    arguments.max_grad_norm = 0;
    arguments.save_strategy = "steps";
    arguments.save_steps = 1;
    const Ran at_once = run(arguments, Reads::kAtOnce);
    EXPECT_NE(at_once.error.find("the weights were not changed"), std::string::npos) << at_once.error;
    EXPECT_NE(at_once.error.find("Samples"), std::string::npos) << at_once.error;
    expect_same(arguments, at_once, run(arguments, Reads::kAhead));
  }
}

// A callback that throws once, after step 3.
class ThrowsOnce : public Callback {
 public:
  struct Fault {};
  void on_step_end(const StepInfo& info, TrainControl&) override {
    if (info.step == 3 && !std::exchange(has_thrown_, true)) throw Fault();
  }

 private:
  bool has_thrown_ = false;
};

// If a callback throws, the work that is already enqueued for the next step must be discarded. A later run must
// not be affected.
TEST(Ahead, ARunBehindOneThatThrewIsThatOfOneReadAtOnce) {
  const TestFolder folder("ahead_threw");
  const std::string model = testing::write_tiny_model(folder);
  for (const bool in_backward : {false, true}) {
    SCOPED_TRACE(in_backward);
    Arguments arguments = arguments_of(model, folder.path(in_backward ? "in_backward" : "run"));
    arguments.optimizer_in_backward = in_backward;
    if (in_backward) arguments.gradient_accumulation_steps = 1;
    if (in_backward) arguments.max_grad_norm = 0;
    std::vector<std::vector<std::string>> logs;
    for (const Reads reads : {Reads::kAtOnce, Reads::kAhead}) {
      Session session(setup_of(arguments, reads), posix_file_system(),
                      {.runs_ahead = reads == Reads::kAhead});
      session.allocate();
      const auto callback = std::make_shared<ThrowsOnce>();
      TrainLoop threw(session, {callback});
      EXPECT_THROW(threw.run(), ThrowsOnce::Fault);
      EXPECT_EQ(threw.num_enqueued_steps(), 3);
      TrainLoop next(session, {callback});
      logs.push_back(stable_log(next.run().log_history));
    }
    EXPECT_EQ(logs[0].size(), 15u) << "steps, evaluations and the end";
    EXPECT_EQ(logs[0], logs[1]);
  }
}

// A callback that requests a save after every third step, and delays each save.
class SavesSlowly : public Callback {
 public:
  static constexpr int64_t kInterval = 3;
  static constexpr std::chrono::milliseconds kSave{200};

  void on_step_end(const StepInfo& info, TrainControl& control) override {
    steps.push_back(info);
    control.save = info.step % kInterval == 0;
  }
  void on_save(const std::string& /*path*/) override { std::this_thread::sleep_for(kSave); }
  std::vector<StepInfo> steps;
};

// Returns the tokens per second of all log records, in order.
std::vector<double> logged_rates(const LogHistory& log) {
  std::vector<double> rates;
  for (const LogRecord& record : log) {
    const auto it = record.values.find("tokens_per_second");
    if (it != record.values.end()) rates.push_back(it->second);
  }
  return rates;
}

// Computes the tokens per second that each log record must contain, from the tokens and times of the steps since the record before it.
std::vector<double> rates_of(const std::vector<StepInfo>& steps, int64_t interval) {
  std::vector<double> rates;
  double ms = 0;
  int64_t tokens = 0;
  for (const StepInfo& info : steps) {
    ms += info.step_ms;
    tokens += info.num_tokens;
    if (info.step % interval != 0) continue;
    rates.push_back(1000.0 * static_cast<double>(std::exchange(tokens, 0)) / std::exchange(ms, 0.0));
  }
  return rates;
}

// The time of a save must not count for any step. If the work of the next step was enqueued before the save, the time
// of that work must count for the next step, although the device has completed the work when the save ends.
TEST(Ahead, ASaveNeitherLengthensNorShortensTheStepBehindIt) {
  const TestFolder folder("ahead_time");
  Arguments arguments = arguments_of(testing::write_tiny_model(folder), folder.path("run"));
  arguments.eval_strategy = "no";
  arguments.num_threads = 1;
  // With one micro-batch per step, the work that is enqueued before the save (a forward and a backward pass)
  // is most of the work of the next step.
  arguments.gradient_accumulation_steps = 1;
  arguments.per_device_train_batch_size = 64;
  arguments.dummy_num_samples = 256;
  arguments.dummy_seq_length = 32;
  arguments.logging_steps = SavesSlowly::kInterval;
  constexpr double kSaveMs = std::chrono::duration<double, std::milli>(SavesSlowly::kSave).count();
  for (const Reads reads : {Reads::kAtOnce, Reads::kAhead}) {
    SCOPED_TRACE(reads == Reads::kAhead ? "ahead" : "at once");
    const auto slow = std::make_shared<SavesSlowly>();
    Ran ran;
    train(arguments, reads, ran, slow);
    ASSERT_EQ(slow->steps.size(), 12u);
    // Other processes may delay a step, but no step can be faster than its work. The test therefore uses the
    // shortest times.
    double least_ms = kSaveMs;
    double least_behind_save_ms = kSaveMs;
    for (const StepInfo& info : slow->steps) {
      const bool is_behind_save = info.step > 1 && info.step % SavesSlowly::kInterval == 1;
      double& least = is_behind_save ? least_behind_save_ms : least_ms;
      least = std::min(least, info.step_ms);
    }
    EXPECT_GT(least_behind_save_ms, 0.5 * least_ms);
    EXPECT_LT(least_behind_save_ms, kSaveMs);
    EXPECT_EQ(logged_rates(ran.output.log_history), rates_of(slow->steps, SavesSlowly::kInterval));
  }
}

}  // namespace
}  // namespace plimsoll
