// What runs that differ in threads or in kernels agree on: the same masks, the same order of data, and every
// figure but for rounding. docs/DETERMINISM.md names these tests; equal bits are held by resume_test.cc and
// tests/spine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "plimsoll/trainer.h"
#include "tests/training/run_figures.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::expect_equal_but_for_rounding;
using testing::figures_of;
using testing::RunFigures;
using testing::TestFolder;

RunFigures run(const TestFolder& folder, const std::string& model, int64_t threads,
               const std::string& kernels) {
  Arguments arguments = testing::tiny_arguments(model, folder.path("run"));
  std::filesystem::remove_all(arguments.output_dir);
  arguments.save_strategy = "no";
  arguments.num_threads = threads;
  arguments.kernels = kernels;
  Trainer trainer(arguments);
  const TrainOutput output = trainer.train();
  trainer.save_model(folder.path("model_out"));
  return figures_of(output, folder.path("model_out"));
}

TEST(Determinism, ThreadsChangeRoundingOnly) {
  const TestFolder folder("threads");
  const std::string model = testing::write_tiny_model(folder);
  expect_equal_but_for_rounding(run(folder, model, 1, "auto"), run(folder, model, 2, "auto"));
}

// Plain loops without oneDNN and without SIMD: the farthest that another instruction set or another version
// can be.
TEST(Determinism, KernelsChangeRoundingOnly) {
  const TestFolder folder("kernels");
  const std::string model = testing::write_tiny_model(folder);
  const RunFigures fast = run(folder, model, 1, "auto");
  const RunFigures plain = run(folder, model, 1, "ref");
  EXPECT_NE(fast.weights, plain.weights) << "the reference kernels were not used";
  expect_equal_but_for_rounding(fast, plain);
}

// The measure is no rubber stamp: a run whose masks keep everything is far outside.
TEST(Determinism, AnotherMaskIsSeen) {
  const TestFolder folder("mask");
  const RunFigures with = run(folder, testing::write_tiny_model(folder, 0.1), 1, "auto");
  const RunFigures without = run(folder, testing::write_tiny_model(folder, 0.0), 1, "auto");
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
