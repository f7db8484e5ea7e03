// Ranks that divide the optimizer's states (ZeRO stage 1) make the same step as ranks that all have every state. The ranks are
// threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "graph/ops/slice.h"
#include "tests/spine/step_cases.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::ThreadCommunicator;
using testing::TinyCase;

const std::vector<int> kLengths{5, 9, 3};
constexpr Bucket kBucket{.tokens = 17, .sequences = 3, .longest = 9};
constexpr double kRate = 1e-2;

struct Ranks {
  int count = 2;
  ZeroStage stage = ZeroStage::kStates;
  bool late = false;  // collective operations run as late as the plan allows
  int num_steps = 2;
};

// The results of a rank after some steps.
struct Result {
  std::vector<double> norms;
  std::map<std::string, std::vector<double>> weights;
  int64_t state_bytes = 0;
};

Plan plan_of(const TinyCase& test, const Ranks& ranks) {
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.device.num_threads = 1;
  request.ranks = {.count = ranks.count, .zero_stage = ranks.stage, .bucket_bytes = 2048};
  return build_plan(request);
}

Result run_steps(const Plan& plan, const TinyCase& test, const Ranks& ranks, Communicator& communicator) {
  Executor executor(plan, {.connections = {.ranks = &communicator}, .late_copies = ranks.late});
  testing::fill_weights(executor);
  executor.zero_states();
  Result result;
  int64_t batch = 0;
  for (int step = 1; step <= ranks.num_steps; ++step) {
    for (int64_t i = 0; i < test.accumulation; ++i, ++batch) {
      const int64_t number = batch * ranks.count + communicator.rank();
      executor.set_accumulate(i > 0);
      const auto denominator = static_cast<double>(std::ssize(kLengths) * test.accumulation * ranks.count);
      testing::forward_backward(executor, testing::tiny_batch(test, kLengths, static_cast<uint32_t>(number)),
                                number, denominator);
    }
    executor.set_update(kRate, step);
    executor.run(kTrainProgram, Segment::kOptimizer);
    // The first loss scale of fp16 may be too large, so that the step is skipped.
    if (!plan.scales_loss()) {
      EXPECT_TRUE(executor.finite());
      EXPECT_EQ(executor.first_bad_gradient(), "");
    }
    result.norms.push_back(executor.grad_norm());
  }
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage == Storage::kOptimizerState) result.state_bytes += buffer.bytes;
    if (buffer.storage == Storage::kWeight)
      result.weights[buffer.name] = testing::values_of(executor, buffer.name);
  }
  return result;
}

std::vector<Result> results_of_ranks(const TinyCase& test, const Ranks& ranks) {
  const Plan plan = plan_of(test, ranks);
  std::vector<Result> results(static_cast<size_t>(ranks.count));
  testing::run_on_ranks(ranks.count, [&](ThreadCommunicator& communicator) {
    results[static_cast<size_t>(communicator.rank())] = run_steps(plan, test, ranks, communicator);
  });
  return results;
}

std::vector<TinyCase> sharded_cases() {
  std::vector<TinyCase> cases = testing::step_cases();
  std::erase_if(cases, [](const TinyCase& test) {
    return test.optimizer.kind == OptimizerKind::kAdafactor || test.optimizer_in_backward;
  });
  cases.push_back({.reference_kernels = true, .activations = DType::kF16});
  cases.push_back({.dtype = DType::kF64, .reference_kernels = true});
  // Weights and second moments that are rounded stochastically.
  cases.push_back({.dtype = DType::kBF16, .activations = DType::kBF16});
  cases.push_back({.dtype = DType::kBF16,
                   .optimizer = {.kind = OptimizerKind::kLion8Bit},
                   .hidden = 64,
                   .activations = DType::kBF16});
  cases.push_back({.optimizer = {.momentum_dtype = DType::kBF16, .variance_dtype = DType::kBF16},
                   .activations = DType::kBF16});
  return cases;
}

std::string describe(const TinyCase& test, const Ranks& ranks) {
  return fmt::format("{} ranks, {} micro-batches each, {}, {}, hidden {}, in {}{}", ranks.count,
                     test.accumulation, test.model_type, optimizer_row(test.optimizer.kind).name, test.hidden,
                     dtype_name(test.activations.value_or(test.dtype)), test.lora ? ", LoRA" : "");
}

void expect_same_weights(const Result& a, const Result& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, values] : a.weights) EXPECT_TRUE(values == b.weights.at(name)) << name;
}

// The ranks of these tests add the same numbers in the same order with and without slices, and without clipping nothing else
// differs: every optimizer and precision updates the weights to the same bits.
TEST(Zero, StepsEqualThoseOfRanksWithAllStates) {
  int compared = 0;
  for (TinyCase test : sharded_cases()) {
    test.optimizer.max_grad_norm = 0.0;
    for (const Ranks& ranks : {Ranks{}, Ranks{.count = 3, .late = true}}) {
      SCOPED_TRACE(describe(test, ranks));
      Ranks whole = ranks;
      whole.stage = ZeroStage::kNone;
      const std::vector<Result> expected = results_of_ranks(test, whole);
      const std::vector<Result> found = results_of_ranks(test, ranks);
      for (const Result& result : found) {
        expect_same_weights(result, expected.front());
        EXPECT_EQ(result.norms, found.front().norms);
        for (size_t i = 0; i < result.norms.size(); ++i) {
          // The norms of the ranks are rounded to fp32, and so is the norm of them.
          EXPECT_NEAR(result.norms[i], expected.front().norms[i], 3e-7 * expected.front().norms[i]);
        }
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 60);
}

// With clipping, the coefficient may differ in its last bits.
TEST(Zero, ClippedStepsOfAllRanksAreEqual) {
  for (const int count : {2, 4}) {
    TinyCase test;
    test.optimizer = {.kind = OptimizerKind::kSgd, .momentum = 0.9, .max_grad_norm = 0.01};
    const std::vector<Result> whole = results_of_ranks(test, {.count = count, .stage = ZeroStage::kNone});
    const std::vector<Result> found = results_of_ranks(test, {.count = count});
    for (const Result& result : found) {
      expect_same_weights(result, found.front());
      EXPECT_EQ(result.norms, found.front().norms);
    }
    for (const auto& [name, values] : whole.front().weights) {
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(found.front().weights.at(name)[i], values[i], 1e-6 * (1.0 + std::abs(values[i]))) << name;
    }
  }
}

// Each rank has room for a slice of every state.
TEST(Zero, StatesHaveTheSizeOfASlice) {
  for (const int count : {2, 3, 4}) {
    TinyCase test{.hidden = 64};
    const Plan whole = plan_of(test, {.count = count, .stage = ZeroStage::kNone});
    const Plan divided = plan_of(test, {.count = count});
    const RankSlices slices{.ranks = count};
    int64_t bytes = 0, whole_bytes = 0;
    for (const PersistentBuffer& buffer : whole.persistent) {
      if (buffer.storage != Storage::kOptimizerState) continue;
      const int64_t elements = slices.size(buffer.type.shape.elements({}));
      EXPECT_EQ(divided.type_of(buffer.name).shape.elements({}), elements) << buffer.name;
      bytes += elements * 4;
      whole_bytes += buffer.type.shape.elements({}) * 4;
    }
    EXPECT_LT(bytes, whole_bytes * 6 / 5 / count);
  }
}

// A number that is not finite in the slice of any rank stops the update of all of them, and all ranks name the same gradient.
TEST(Zero, AllRanksSkipAnUpdateWithANumberThatIsNotFinite) {
  const TinyCase test;
  const Plan plan = plan_of(test, {.count = 2});
  std::vector<std::string> bad(2);
  testing::run_on_ranks(2, [&](ThreadCommunicator& communicator) {
    Executor executor(plan, {.connections = {.ranks = &communicator}});
    testing::fill_weights(executor);
    executor.zero_states();
    executor.set_accumulate(false);
    const testing::TinyBatch batch = testing::tiny_batch(test, kLengths, 1);
    // The loss of rank 0 is divided by almost zero.
    testing::forward_backward(executor, batch, 0, communicator.rank() == 0 ? 1e-45 : 6.0);
    const std::string& weight = plan.weights.front().name;
    const auto before = testing::values_of(executor, weight);
    executor.set_update(kRate, 1);
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_FALSE(executor.finite());
    bad[static_cast<size_t>(communicator.rank())] = executor.first_bad_gradient();
    EXPECT_EQ(testing::values_of(executor, weight), before);
  });
  EXPECT_NE(bad[0], "");
  EXPECT_EQ(bad[0], bad[1]);
}

}  // namespace
}  // namespace plimsoll
