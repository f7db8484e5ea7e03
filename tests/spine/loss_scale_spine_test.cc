// Tests fp16 with a loss scale, on a GPU or on the reference kernels. An overflow changes no weight, halves the scale
// and does not count as an update. After enough steps without overflow the scale is doubled. The scale cancels in all
// results that are not fp16.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
const std::vector<int> kLengths{5, 1, 7, 3};
// A loss scale that makes every scaled gradient of these models overflow in fp16.
constexpr double kTooLarge = 0x1p80;

TinyCase fp16_case(int64_t accumulation = 1, OptimizerConfig optimizer = {}) {
  return {.accumulation = accumulation,
          .optimizer = optimizer,
          .reference_kernels = !testing::tests_run_on_gpu(),
          .activations = DType::kF16};
}

struct TinyRun {
  TinyCase test;
  Plan plan;
  Executor executor;

  explicit TinyRun(const TinyCase& tiny)
      : test(tiny), plan(build_plan(testing::tiny_request(tiny, kBucket))), executor(plan) {
    testing::fill_weights(executor);
  }
  void micro_batch(int64_t seed, int64_t index) {
    executor.set_accumulate(index > 0);
    testing::forward_backward(executor, testing::tiny_batch(test, kLengths, static_cast<uint32_t>(seed)),
                              seed, 4.0 * static_cast<double>(test.accumulation));
  }
  void update(int64_t step) {
    executor.set_update(1e-2, step);
    executor.run(kTrainProgram, Segment::kOptimizer);
  }
  void step(int64_t number, int64_t seed) {
    for (int64_t i = 0; i < test.accumulation; ++i) micro_batch(seed + i, i);
    update(number);
  }
  double state(const std::string& name) { return testing::values_of(executor, name).at(0); }
  std::vector<std::vector<std::byte>> weights() {
    std::vector<std::vector<std::byte>> all;
    for (const WeightSpec& spec : plan.weights) all.push_back(testing::bytes_of(executor, spec.name));
    return all;
  }
};

TEST(LossScale, StartsAsPlanned) {
  TinyRun run(fp16_case());
  EXPECT_TRUE(run.plan.scales_loss());
  EXPECT_EQ(run.state("loss_scale"), 65536.0);
  EXPECT_EQ(run.state("loss_scale.good_steps"), 0.0);
  EXPECT_EQ(run.executor.skipped_steps(), 0);
  run.step(1, 1);
  EXPECT_TRUE(run.executor.finite());
  EXPECT_EQ(run.executor.used_loss_scale(), 65536.0);
  EXPECT_EQ(run.state("loss_scale.good_steps"), 1.0);
  run.executor.zero_states();
  EXPECT_EQ(run.state("loss_scale"), 65536.0);
  EXPECT_EQ(run.state("loss_scale.good_steps"), 0.0);
}

TEST(LossScale, AnOverflowChangesNoWeightAndHalvesIt) {
  for (const OptimizerConfig& optimizer : {OptimizerConfig{.weight_decay = 0.01},
                                           OptimizerConfig{.kind = OptimizerKind::kSgd, .momentum = 0.9}}) {
    TinyRun run(fp16_case(1, optimizer));
    testing::set_value(run.executor, "loss_scale", 0, kTooLarge);
    const auto before = run.weights();
    run.step(1, 1);
    EXPECT_FALSE(run.executor.finite());
    EXPECT_FALSE(std::isfinite(run.executor.grad_norm()));
    EXPECT_EQ(run.executor.used_loss_scale(), kTooLarge);
    EXPECT_EQ(run.executor.skipped_steps(), 1);
    EXPECT_EQ(run.weights(), before);
    EXPECT_EQ(run.state("loss_scale"), kTooLarge / 2);
    EXPECT_EQ(run.state("loss_scale.good_steps"), 0.0);
    EXPECT_FALSE(run.executor.first_bad_gradient().empty());
  }
}

// A skipped step is not an update: the next one is AdamW's first update, with states that are still zero.
TEST(LossScale, ASkippedStepLeavesNoTrace) {
  TinyRun skipped(fp16_case()), plain(fp16_case());
  testing::set_value(skipped.executor, "loss_scale", 0, kTooLarge);
  skipped.step(1, 1);
  testing::set_value(skipped.executor, "loss_scale", 0, 65536.0);
  EXPECT_EQ(skipped.executor.skipped_steps(), 1);
  skipped.step(2, 2);
  skipped.step(3, 3);
  plain.step(1, 2);
  plain.step(2, 3);
  EXPECT_TRUE(skipped.executor.finite());
  EXPECT_EQ(skipped.weights(), plain.weights());
  EXPECT_EQ(skipped.executor.skipped_steps(), 1);
}

TEST(LossScale, AnOverflowInAnyMicroBatchSkipsTheWholeStep) {
  for (int64_t bad = 0; bad < 3; ++bad) {
    TinyRun run(fp16_case(3));
    const auto before = run.weights();
    for (int64_t i = 0; i < 3; ++i) {
      testing::set_value(run.executor, "loss_scale", 0, i == bad ? kTooLarge : 65536.0);
      run.micro_batch(1 + i, i);
    }
    testing::set_value(run.executor, "loss_scale", 0, 65536.0);
    run.update(1);
    EXPECT_FALSE(run.executor.finite()) << bad;
    EXPECT_EQ(run.weights(), before) << bad;
    EXPECT_EQ(run.state("loss_scale"), 32768.0) << bad;
    run.step(2, 7);
    EXPECT_TRUE(run.executor.finite()) << bad;
    EXPECT_NE(run.weights(), before) << bad;
  }
}

TEST(LossScale, TwoThousandGoodStepsDoubleIt) {
  TinyRun run(fp16_case());
  testing::set_value(run.executor, "loss_scale", 0, 256.0);
  testing::set_value(run.executor, "loss_scale.good_steps", 0, 1998.0);
  run.step(1, 1);
  EXPECT_EQ(run.state("loss_scale"), 256.0);
  EXPECT_EQ(run.state("loss_scale.good_steps"), 1999.0);
  run.step(2, 2);
  EXPECT_EQ(run.executor.used_loss_scale(), 256.0);
  EXPECT_EQ(run.state("loss_scale"), 512.0);
  EXPECT_EQ(run.state("loss_scale.good_steps"), 0.0);
}

// Multiplying by a power of two changes only exponents. The loss scale must therefore cancel: as long as
// nothing in fp16 overflows or becomes subnormal, all bits after the division are the same. Subnormal values
// differ by at most half their spacing divided by the scale, which is far below other rounding errors of fp16
// (2^-11 of each value).
TEST(LossScale, CancelsInTheNormAndTheUpdate) {
  for (const double max_norm : {0.0, 0.05}) {
    const OptimizerConfig optimizer{.kind = OptimizerKind::kSgd, .max_grad_norm = max_norm};
    TinyRun small(fp16_case(1, optimizer)), large(fp16_case(1, optimizer));
    testing::set_value(small.executor, "loss_scale", 0, 4096.0);
    small.step(1, 1);
    large.step(1, 1);
    TinyCase fp32 = fp16_case(1, optimizer);
    fp32.activations.reset();
    TinyRun exact(fp32);
    exact.step(1, 1);
    ASSERT_TRUE(small.executor.finite() && large.executor.finite());
    EXPECT_GT(exact.executor.grad_norm(), 0.1);
    EXPECT_NEAR(small.executor.grad_norm(), large.executor.grad_norm(), 1e-5 * large.executor.grad_norm());
    // The tolerance covers about twenty consecutive fp16 roundings in the forward and backward pass through two
    // layers.
    EXPECT_NEAR(large.executor.grad_norm(), exact.executor.grad_norm(),
                20 * 0x1p-11 * exact.executor.grad_norm());
    // SGD changes the weights by the learning rate times the gradient. If the gradient is clipped, its norm is
    // max_norm.
    const double largest = 1e-2 * (max_norm > 0 ? max_norm : exact.executor.grad_norm());
    for (const WeightSpec& spec : exact.plan.weights) {
      const std::vector<double> want = testing::values_of(exact.executor, spec.name);
      const std::vector<double> got = testing::values_of(large.executor, spec.name);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 20 * 0x1p-11 * largest + 1e-8) << spec.name;
    }
  }
}

}  // namespace
}  // namespace plimsoll
