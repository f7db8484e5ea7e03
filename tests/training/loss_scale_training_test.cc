// Tests a complete run in fp16, on a GPU or with the reference kernels: steps that overflow are skipped,
// counted and reported, and do not advance the learning rate schedule. A run resumed from any checkpoint ends with the
// same bits, including the loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "plimsoll/trainer.h"
#include "tests/training/stable_log.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::read_file;
using testing::stable_log;
using testing::TestFolder;

// Returns arguments of a run in fp16 whose weights are so large that the first loss scale makes the gradients
// overflow.
Arguments fp16_arguments(const std::string& model, const std::string& output_dir) {
  Arguments arguments = testing::tiny_arguments(model, output_dir);
  if (std::getenv("PLIMSOLL_TEST_DEVICE") == nullptr) {
    arguments.device = "cpu";
    arguments.kernels = {"ref"};
  }
  arguments.fp16 = true;
  arguments.config_overrides["initializer_range"] = "1.0";
  arguments.max_steps = 8;
  return arguments;
}

class Watch : public Callback {
 public:
  void on_step_end(const StepInfo& info, TrainControl&) override { steps.push_back(info); }
  void on_warning(const std::string& text) override { warnings.push_back(text); }
  std::vector<StepInfo> steps;
  std::vector<std::string> warnings;
};

TEST(LossScaledRun, SkippedStepsAreCountedAndToldAndResumedBitForBit) {
  const TestFolder folder("loss_scale");
  const std::string model = testing::write_tiny_model(folder);
  const Arguments whole = fp16_arguments(model, folder.path("whole"));
  const auto watch = std::make_shared<Watch>();
  Trainer trainer(whole);
  trainer.add_callback(watch);
  const TrainOutput expected = trainer.train();
  ASSERT_EQ(expected.step, 8);
  ASSERT_EQ(watch->steps.size(), 8u);
  size_t skipped = 0;
  double updates = 0;
  for (size_t i = 0; i < watch->steps.size(); ++i) {
    const StepInfo& step = watch->steps[i];
    EXPECT_EQ(step.loss_scale, std::ldexp(65536.0, -static_cast<int>(skipped)));
    EXPECT_EQ(std::isfinite(step.grad_norm), !step.skipped);
    // The learning rate rises over three warm-up steps. A skipped step must not advance it.
    if (updates < 3) {
      EXPECT_NEAR(step.learning_rate, 1e-3 * updates / 3.0, 1e-12);
    }
    if (step.skipped) ++skipped;
    if (!step.skipped) ++updates;
    const LogRecord record = expected.log_history[i];
    EXPECT_EQ(record.values.at("loss_scale"), step.loss_scale);
    EXPECT_EQ(record.values.at("skipped_steps"), static_cast<double>(skipped));
  }
  EXPECT_GE(skipped, 1u);
  EXPECT_GE(updates, 3.0);
  // A busy machine may add a warning that the steps wait for data, which depends on measured times.
  std::vector<std::string> overflows;
  for (const std::string& warning : watch->warnings) {
    if (warning.find("overflow") != std::string::npos) overflows.push_back(warning);
  }
  ASSERT_EQ(overflows.size(), skipped);
  EXPECT_NE(overflows[0].find("step 1: the gradients overflow fp16 with the loss scale 65536"),
            std::string::npos)
      << overflows[0];
  for (int step = 1; step < 8; ++step) {
    SCOPED_TRACE("resumed after step " + std::to_string(step));
    Arguments rest = fp16_arguments(model, folder.path("rest" + std::to_string(step)));
    rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + std::to_string(step);
    const TrainOutput output = Trainer(rest).train();
    EXPECT_EQ(stable_log(output.log_history), stable_log(expected.log_history));
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string wanted = read_file(whole.output_dir + "/checkpoint-8/" + file);
      ASSERT_FALSE(wanted.empty());
      EXPECT_TRUE(read_file(rest.output_dir + "/checkpoint-8/" + file) == wanted) << file;
    }
  }
}

// Only fp16 has a loss scale. A run that resumes in fp32 must ignore it, and one that changes from fp32 to fp16
// must start with the initial scale.
TEST(LossScaledRun, GoesOnInAnotherPrecision) {
  const TestFolder folder("loss_scale_precision");
  const std::string model = testing::write_tiny_model(folder);
  Arguments arguments = fp16_arguments(model, folder.path("run"));
  arguments.max_steps = 2;
  Trainer(arguments).train();
  arguments.resume_from_checkpoint = "True";
  arguments.fp16 = false;
  arguments.max_steps = 4;
  EXPECT_EQ(Trainer(arguments).train().step, 4);
  arguments.fp16 = true;
  arguments.max_steps = 5;
  const TrainOutput output = Trainer(arguments).train();
  EXPECT_EQ(output.step, 5);
  EXPECT_EQ(output.log_history[4].values.at("loss_scale"), 65536.0);
}

// The loss is the squared distance of the output from labels of a million and more, so its gradient overflows fp16 at every loss scale.
// Such an overflow ends the run with a message that states the reason.
TEST(LossScaledRun, AnOverflowAtTheSmallestScaleEndsIt) {
  const TestFolder folder("loss_scale_smallest");
  Arguments arguments = fp16_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.dataset_name.clear();
  arguments.tokenizer_name = arguments.config_name;
  arguments.train_file = testing::write_uneven_rows(folder, 3);
  std::ofstream(arguments.train_file) << "sentence,label\na b,1000000.5\nb c,2000000.5\nc,3000000.5\n";
  arguments.config_overrides.clear();
  arguments.max_steps = 40;
  arguments.save_strategy = "no";
  try {
    Trainer(arguments).train();
    FAIL() << "gradients beyond fp16 were trained on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFinite);
    EXPECT_NE(std::string(error.what()).find("smallest loss scale, 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("--bf16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
