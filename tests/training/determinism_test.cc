// What runs that differ in threads or in kernels agree on: the same masks, the same order of data, and every
// figure but for rounding. docs/DETERMINISM.md names these tests; equal bits are held by resume_test.cc and
// tests/spine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "io/ckpt/safetensors.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

using testing::TestFolder;

struct RunFigures {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> weights;
};

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
  RunFigures result;
  for (const LogRecord& record : output.log_history) {
    if (!record.values.contains("loss")) continue;
    result.losses.push_back(record.values.at("loss"));
    result.norms.push_back(record.values.at("grad_norm"));
  }
  const SafetensorsFile file =
      SafetensorsFile::open(posix_file_system(), folder.path("model_out") + "/model.safetensors");
  for (const StoredTensor& tensor : file.tensors()) {
    // The gradient of a key bias is exactly zero, so that AdamW makes steps of full size out of its rounding.
    if (tensor.name.ends_with("self.key.bias")) continue;
    std::vector<double> values(static_cast<size_t>(tensor.num_elements()));
    file.read(tensor, {values.data(), DType::kF64});
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

// A loss and a norm are sums of some hundred products in fp32: a few units of 2^-24 in the first step. Twelve
// steps of AdamW at 1e-3 carry that on; a gradient near zero turns a rounding into a part of a step, which is
// why weights are compared as a whole. The limits are a hundred roundings, and a thousandth of the learning
// rate's reach (12 * 1e-3 for an element); a mask or a row of data that differed would show in the second
// digit.
void expect_equal_but_for_rounding(const RunFigures& a, const RunFigures& b) {
  ASSERT_EQ(a.losses.size(), 12u);
  ASSERT_EQ(b.losses.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 100 * 0x1p-24 * std::fabs(a.losses[i])) << "step " << i + 1;
    EXPECT_NEAR(a.norms[i], b.norms[i], 1000 * 0x1p-24 * std::fabs(a.norms[i])) << "step " << i + 1;
  }
  ASSERT_EQ(a.weights.size(), b.weights.size());
  double square = 0;
  for (size_t i = 0; i < a.weights.size(); ++i)
    square += (a.weights[i] - b.weights[i]) * (a.weights[i] - b.weights[i]);
  EXPECT_LE(std::sqrt(square / static_cast<double>(a.weights.size())), 1e-3 * 12 * 1e-3);
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
