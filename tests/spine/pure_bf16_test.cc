// Tests weights in bf16 without any fp32 copy, which need 2 bytes and, with AdamW, 8 bytes of moments per parameter.
// Results are repeatable bit for bit, and the loss decreases although an update is smaller than the spacing of most
// weights.
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
    executor.run(kTrainProgram, Segment::kOptimizer);
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
  // The case below uses the reference kernels, which run only on a CPU.
  if (testing::tests_run_on_gpu()) return list;
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
    // The spacing of bf16 numbers near a weight of 0.1 is 2^-11, five times the step of AdamW: rounding to
    // nearest would leave such a weight unchanged.
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

// Optimizers other than AdamW. With these learning rates, a step is at most a tenth of the spacing of bf16 numbers at a
// weight of 0.1, so that rounding to nearest would lose it. SGD and Adafactor are exceptions, because their first steps
// depend on the gradients. States of matrices with 64 x 64 elements are stored in 8 bits.
struct OtherOptimizer {
  OptimizerKind kind;
  double learning_rate;
};
constexpr OtherOptimizer kOthers[] = {{OptimizerKind::kSgd, 2e-3},       {OptimizerKind::kLion, 2e-5},
                                      {OptimizerKind::kAdagrad, 2e-4},   {OptimizerKind::kAdafactor, 5e-5},
                                      {OptimizerKind::kAdamW8Bit, 5e-5}, {OptimizerKind::kLion8Bit, 2e-5},
                                      {OptimizerKind::kSgd8Bit, 2e-3},   {OptimizerKind::kAdagrad8Bit, 2e-4}};

// Returns the momentum for the optimizer. SGD has a state only with momentum, and 8-bit SGD requires one.
double momentum_of(OptimizerKind kind) {
  return kind == OptimizerKind::kSgd || kind == OptimizerKind::kSgd8Bit ? 0.9 : 0.0;
}

TEST(PureBf16, EveryOptimizerLearnsAndRepeatsItself) {
  for (const OtherOptimizer& other : kOthers) {
    SCOPED_TRACE(optimizer_row(other.kind).name);
    TinyCase test{.dtype = DType::kBF16, .dropout = 0.0, .hidden = 64, .activations = DType::kBF16};
    test.optimizer.kind = other.kind;
    test.optimizer.momentum = momentum_of(other.kind);
    constexpr int kSteps = 60;
    const Outcome one = train(test, kSteps, 1, other.learning_rate);
    const Outcome same = train(test, kSteps, 1, other.learning_rate);
    EXPECT_EQ(one.losses, same.losses);
    EXPECT_EQ(one.weights, same.weights);
    EXPECT_NE(train(test, 5, 2, other.learning_rate).weights, train(test, 5, 3, other.learning_rate).weights);
    EXPECT_LT(one.losses.back(), one.losses.front() - 0.05);
  }
}

// Splitting updates into more ops must not change the results. The random numbers of stochastic rounding belong
// to parameters, and must not depend on where an op starts or on which tensors it combines.
TEST(PureBf16, SmallerUpdatesHaveTheSameBits) {
  for (const OtherOptimizer& other : kOthers) {
    SCOPED_TRACE(optimizer_row(other.kind).name);
    TinyCase test{.dtype = DType::kBF16, .dropout = 0.0, .hidden = 64, .activations = DType::kBF16};
    test.optimizer.kind = other.kind;
    if (other.kind == OptimizerKind::kSgd8Bit) test.optimizer.momentum = momentum_of(other.kind);
    const Outcome together = train(test, 4, 1, other.learning_rate);
    for (const int64_t elements : {1, 9000}) {
      test.optimizer.most_elements_at_once = elements;
      EXPECT_EQ(train(test, 4, 1, other.learning_rate).weights, together.weights) << elements;
    }
  }
}

// Optimizer states must be stored in fp32 or 8 bits even if the weights are bf16.
TEST(PureBf16, StatesOfEveryOptimizerAreNotIn16Bits) {
  for (const OtherOptimizer& other : kOthers) {
    TinyCase test{.dtype = DType::kBF16, .hidden = 64, .activations = DType::kBF16};
    test.optimizer.kind = other.kind;
    test.optimizer.momentum = momentum_of(other.kind);
    int64_t states = 0;
    for (const PersistentBuffer& buffer : build_plan(testing::tiny_request(test, kBucket)).persistent) {
      if (buffer.storage != Storage::kOptimizerState) continue;
      ++states;
      EXPECT_TRUE(buffer.type.dtype == DType::kF32 || buffer.type.dtype == DType::kU8)
          << optimizer_row(other.kind).name << " " << dtype_name(buffer.type.dtype);
    }
    EXPECT_GE(states, 1);
  }
}

}  // namespace
}  // namespace plimsoll
