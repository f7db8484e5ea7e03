// Weights in bf16 and nothing of fp32 beside them: 2 bytes of weights and 8 of moments, the same bits every
// time, and a loss that goes down although an update is smaller than the spacing of most weights.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
const std::vector<int> kLengths{5, 1, 7, 3};

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> weights;
};

Outcome train(TinyCase test, int steps, uint64_t seed, double learning_rate) {
  test.optimizer.noise_seed = seed;
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  Executor executor(plan);
  testing::fill_weights(executor);
  Outcome outcome;
  for (int step = 1; step <= steps; ++step) {
    double loss = 0;
    for (int64_t a = 0; a < test.accumulation; ++a) {
      executor.set_accumulate(a > 0);
      loss += testing::forward_backward(executor,
                                        testing::tiny_batch(test, kLengths, static_cast<uint32_t>(1 + a)),
                                        step, 4.0 * static_cast<double>(test.accumulation));
    }
    outcome.losses.push_back(loss);
    executor.set_update(learning_rate, step);
    executor.run(ProgramKind::kTrain, Segment::kOptimizer);
    EXPECT_TRUE(executor.finite());
  }
  for (const WeightSpec& spec : plan.weights)
    outcome.weights.push_back(testing::bytes_of(executor, spec.name));
  return outcome;
}

std::vector<TinyCase> cases() {
  std::vector<TinyCase> list;
  for (const char* model : {"bert", "distilbert"}) {
    for (const int64_t accumulation : {1, 2}) {
      list.push_back({.model_type = model,
                      .dtype = DType::kBF16,
                      .dropout = 0.0,
                      .accumulation = accumulation,
                      .activations = DType::kBF16});
    }
  }
  list.push_back(
      {.dtype = DType::kBF16, .dropout = 0.0, .reference_kernels = true, .activations = DType::kBF16});
  return list;
}

TEST(PureBf16, HoldsTenBytesAParameter) {
  for (const TinyCase& test : cases()) {
    const Plan plan = build_plan(testing::tiny_request(test, kBucket));
    int64_t weights = 0, states = 0;
    for (const PersistentBuffer& buffer : plan.persistent) {
      const int64_t bytes =
          is_persistent(buffer.storage) ? buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype) : 0;
      if (buffer.storage == Storage::kWeight) weights += bytes;
      if (buffer.storage == Storage::kOptimizerState) states += bytes;
    }
    EXPECT_EQ(weights, 2 * plan.num_parameters());
    EXPECT_EQ(states, 8 * plan.num_parameters());
    EXPECT_TRUE(plan.split_weights.empty() && plan.weight_copies.empty());
  }
}

TEST(PureBf16, LearnsAndRepeatsItself) {
  for (const TinyCase& test : cases()) {
    // A weight of 0.1 has a spacing of 2^-11 in bf16; AdamW's step is a fifth of it.
    const double learning_rate = 1e-4;
    const int steps = test.reference_kernels ? 40 : 300;
    const Outcome one = train(test, steps, 1, learning_rate);
    const Outcome same = train(test, steps, 1, learning_rate);
    EXPECT_EQ(one.losses, same.losses);
    EXPECT_EQ(one.weights, same.weights);
    EXPECT_NE(train(test, 5, 2, learning_rate).weights, train(test, 5, 3, learning_rate).weights);
    EXPECT_LT(one.losses.back(), one.losses.front() - (test.reference_kernels ? 0.01 : 0.1));
  }
}

}  // namespace
}  // namespace plimsoll
