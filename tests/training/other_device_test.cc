// Tests that a checkpoint from one device can be resumed on another one. Afterwards the run must equal one that
// stays on its device, except for rounding. Needs a GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "plimsoll/trainer.h"
#include "tests/training/run_figures.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::expect_equal_but_for_rounding;
using testing::figures_of;
using testing::RunFigures;
using testing::TestFolder;

constexpr const char* kGpu = "cuda:0";
constexpr const char* kCpu = "cpu";

RunFigures train(const Arguments& arguments) {
  Trainer trainer(arguments);
  const TrainOutput output = trainer.train();
  trainer.save_model(arguments.output_dir);
  return figures_of(output, arguments.output_dir);
}

TEST(OtherDevice, ACheckpointOfEitherGoesOnOnTheOther) {
  const TestFolder folder("other_device");
  const std::string model = testing::write_tiny_model(folder);
  for (const char* first : {kCpu, kGpu}) {
    const std::string other = first == std::string(kCpu) ? kGpu : kCpu;
    SCOPED_TRACE(std::string(first) + ", then " + other);
    Arguments whole = testing::tiny_arguments(model, folder.path("whole_" + std::string(first)));
    whole.device = first;
    const RunFigures expected = train(whole);
    for (const char* step : {"1", "5", "11"}) {
      Arguments rest = testing::tiny_arguments(model, folder.path("rest_" + other + "_" + step));
      rest.device = other;
      rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-" + step;
      expect_equal_but_for_rounding(train(rest), expected);
    }
  }
}

// A run on a GPU stores weights in two halves in bf16, and has a loss scale in fp16. Checkpoints contain all weights in fp32, so that a run
// in fp32 on a CPU can resume from them. This run ignores the loss scale.
TEST(OtherDevice, TheCpuGoesOnInFp32WhereTheGpuTrainedIn16Bits) {
  const TestFolder folder("other_precision");
  const std::string model = testing::write_tiny_model(folder);
  const RunFigures in_fp32 = [&] {
    Arguments arguments = testing::tiny_arguments(model, folder.path("fp32"));
    arguments.device = kCpu;
    return train(arguments);
  }();
  for (const bool is_bf16 : {true, false}) {
    SCOPED_TRACE(is_bf16 ? "bf16" : "fp16");
    Arguments whole = testing::tiny_arguments(model, folder.path(is_bf16 ? "bf16" : "fp16"));
    whole.device = kGpu;
    (is_bf16 ? whole.bf16 : whole.fp16) = true;
    train(whole);
    Arguments rest = testing::tiny_arguments(model, folder.path(is_bf16 ? "after_bf16" : "after_fp16"));
    rest.device = kCpu;
    rest.resume_from_checkpoint = whole.output_dir + "/checkpoint-6";
    const RunFigures figures = train(rest);
    ASSERT_EQ(figures.losses.size(), 12u);
    // Logits are of size 1, and bf16 rounds them by at most 2^-9 per product. A loss of about ln 2 changes by
    // less than four such roundings. With wrong weights it would differ in the first digit.
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(figures.losses[i], in_fp32.losses[i], 0x1p-7) << i + 1;
  }
}

}  // namespace
}  // namespace plimsoll
