// Tests that runs with different numbers of threads or different kernels agree except for rounding: they use
// the same dropout masks and the same order of the data. docs/DETERMINISM.md refers to these tests.
// resume_test.cc and tests/spine test runs that must agree bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "plimsoll/trainer.h"
#include "tests/training/run_figures.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::expect_equal_but_for_rounding;
using testing::figures_of;
using testing::RunFigures;
using testing::TestFolder;

bool tests_run_on_gpu() {
  return std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr;
}

RunFigures run(const TestFolder& folder, Arguments arguments) {
  std::filesystem::remove_all(arguments.output_dir);
  arguments.save_strategy = "no";
  Trainer trainer(arguments);
  const TrainOutput output = trainer.train();
  trainer.save_model(folder.path("model_out"));
  return figures_of(output, folder.path("model_out"));
}

RunFigures run(const TestFolder& folder, const std::string& model, int64_t threads,
               const StringList& kernels) {
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  arguments.num_threads = threads;
  arguments.kernels = kernels;
  // The reference kernels exist for the CPU only. A run on a GPU is therefore compared with a run on the CPU.
  if (!kernels.empty()) arguments.device = "cpu";
  return run(folder, std::move(arguments));
}

void expect_equal_bits(const RunFigures& a, const RunFigures& b) {
  ASSERT_EQ(a.losses.size(), 12u);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.weights, b.weights);
}

// Every precision of the device is tested.
TEST(Determinism, TwoRunsGiveTheSameBits) {
  const TestFolder folder("twice");
  Arguments plain = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  plain.full_determinism = true;
  std::vector<Arguments> all(1, plain);
  const auto add = [&](const auto& change) { change(all.emplace_back(plain)); };
  if (tests_run_on_gpu() || has_bf16_products(cpu_isa())) {
    add([](Arguments& a) { a.bf16 = true; });
    add([](Arguments& a) { a.dtype = "bfloat16"; });
  }
  if (tests_run_on_gpu()) {
    add([](Arguments& a) { a.tf32 = true; });
    add([](Arguments& a) { a.matmul_precision = "tf32x3"; });
    add([](Arguments& a) { a.fp16 = true; });
  }
  for (const Arguments& arguments : all) {
    SCOPED_TRACE(fmt::format("bf16 {}, fp16 {}, tf32 {}, products {}, weights {}", arguments.bf16,
                             arguments.fp16, arguments.tf32.value_or(false), arguments.matmul_precision,
                             arguments.dtype));
    expect_equal_bits(run(folder, arguments), run(folder, arguments));
  }
}

TEST(Determinism, ThreadsChangeRoundingOnly) {
  const TestFolder folder("threads");
  const std::string model = testing::write_tiny_model(folder);
  const RunFigures one = run(folder, model, 1, {});
  const RunFigures two = run(folder, model, 2, {});
  expect_equal_but_for_rounding(one, two);
  // With a GPU, CPU threads only prepare batches, so their number changes no bit.
  if (tests_run_on_gpu()) expect_equal_bits(one, two);
}

// The reference kernels are plain loops without oneDNN and SIMD. They round differently from the fast kernels, by more
// than another instruction set or another version of a library would.
TEST(Determinism, KernelsChangeRoundingOnly) {
  const TestFolder folder("kernels");
  const std::string model = testing::write_tiny_model(folder);
  const RunFigures fast = run(folder, model, 1, {});
  const RunFigures plain = run(folder, model, 1, {"ref"});
  EXPECT_NE(fast.weights, plain.weights) << "the reference kernels were not used";
  expect_equal_but_for_rounding(fast, plain);
  const RunFigures forced = run(folder, model, 1, {"bias_dropout_residual_norm_fwd_ref"});
  EXPECT_NE(forced.weights, fast.weights) << "the forced kernel was not used";
  EXPECT_NE(forced.weights, plain.weights) << "other kernels were forced too";
  expect_equal_but_for_rounding(forced, plain);
}

// The limit must be small enough to detect real differences: a run without dropout must exceed it clearly.
TEST(Determinism, AnotherMaskIsSeen) {
  const TestFolder folder("mask");
  const RunFigures with = run(folder, testing::write_tiny_model(folder, 0.1), 1, {});
  const RunFigures without = run(folder, testing::write_tiny_model(folder, 0.0), 1, {});
  double loss = 0;
  double norm = 0;
  for (size_t i = 0; i < 12; ++i) {
    loss = std::max(loss, std::fabs(with.losses[i] / without.losses[i] - 1));
    norm = std::max(norm, std::fabs(with.norms[i] / without.norms[i] - 1));
  }
  EXPECT_GT(loss, 10 * 100 * 0x1p-24);
  EXPECT_GT(norm, 10 * 1000 * 0x1p-24);
}

}  // namespace
}  // namespace plimsoll
