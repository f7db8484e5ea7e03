// Tests steps of whole models with different choices of what is recomputed. The results have the same bits as when
// every value is kept and whatever the arena contained before, and no memory beyond the plan is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/analysis/analysis.h"
#include "tests/spine/attention_again.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

const std::vector<int> kLengths{5, 1, 7, 3};
constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
// Returns three settings of recomputation to test: only values that are cheap to compute, whole layers, and
// only attention.
std::vector<RecomputeChoice> choices(const TinyCase& test) {
  return {{.policy = RecomputePolicy::kCheap},
          {.policy = RecomputePolicy::kFull},
          testing::attention_again(testing::tiny_request(test, kBucket))};
}

std::string_view name_of(const RecomputeChoice& choice) {
  return choice.kept_of_block.empty() ? recompute_policy_name(choice.policy) : "attention";
}

struct Steps {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>> state;  // all persistent buffers that training changes
  std::vector<double> weights;
  int64_t high_water = 0;
  int64_t arena = 0;
  size_t num_ops = 0;
};

Steps run_steps(const TinyCase& test, uint8_t fill = 0xFF, int steps = 3) {
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  Executor executor(plan, {.fill = fill});
  testing::fill_weights(executor);
  Steps result;
  int64_t micro = 0;
  for (int step = 1; step <= steps; ++step) {
    for (int64_t a = 0; a < test.accumulation; ++a) {
      const TinyBatch batch = testing::tiny_batch(test, kLengths, static_cast<uint32_t>(++micro));
      executor.set_accumulate(a > 0);
      // The step is set before the backward pass, which may already contain updates.
      executor.set_update(1e-2, step);
      result.losses.push_back(
          testing::forward_backward(executor, batch, micro, 4.0 * static_cast<double>(test.accumulation)));
    }
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_TRUE(executor.finite());
  }
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (is_persistent(buffer.storage)) result.state[buffer.name] = testing::bytes_of(executor, buffer.name);
  }
  for (const WeightSpec& spec : plan.weights) {
    const std::vector<double> values = testing::values_of(executor, spec.name);
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  result.high_water = executor.high_water_bytes();
  result.arena = plan.arena_bytes;
  result.num_ops = plan.programs.at(kTrainProgram).graph.ops().size();
  return result;
}

std::vector<TinyCase> fp32_cases() {
  std::vector<TinyCase> cases;
  for (const char* model : {"bert", "distilbert", "modernbert"}) {
    for (const int64_t accumulation : {1, 3}) {
      cases.push_back({.model_type = model, .accumulation = accumulation, .layers = 4});
    }
  }
  cases.push_back({.dropout = 0.0, .layers = 3});
  cases.push_back({.problem_type = ProblemType::kMultiLabel, .accumulation = 2, .layers = 1});
  return cases;
}

std::string text_of(const TinyCase& test) {
  return fmt::format("{}, {} layers, accumulated {}, {}", test.model_type, test.layers, test.accumulation,
                     name_of(test.recompute));
}

TEST(Recompute, PoliciesKeepEveryBitInFp32) {
  int checked = 0;
  for (TinyCase test : fp32_cases()) {
    test.recompute = {.policy = RecomputePolicy::kNone};
    const Steps kept = run_steps(test);
    for (const RecomputeChoice& choice : choices(test)) {
      test.recompute = choice;
      SCOPED_TRACE(text_of(test));
      const Steps again = run_steps(test);
      EXPECT_EQ(again.losses, kept.losses);
      EXPECT_EQ(again.state, kept.state);
      EXPECT_GT(again.num_ops, kept.num_ops);
      ++checked;
    }
  }
  EXPECT_GE(checked, 24);
}

// To meet a memory limit, the planner may keep any set of values for the backward pass, and a different set
// in each layer. Random sets are tested here. In fp32 none of them may change a bit of the results.
TEST(Recompute, AnySetOfKeptValuesKeepsEveryBitInFp32) {
  TinyCase test{.layers = 3, .recompute = {.policy = RecomputePolicy::kNone}};
  const Steps kept = run_steps(test);
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  uint64_t random = 1;
  for (int round = 0; round < 12; ++round) {
    test.recompute = {};
    int named = 0;
    for (const Value& value : plan.programs.at(kTrainProgram).graph.values()) {
      const std::string block(block_of(plan.programs.at(kTrainProgram).graph.module_name(value.module)));
      if (block.empty() || value.producer == kNoOp) continue;
      auto& names = test.recompute.kept_of_block[block];
      random = random * 6364136223846793005u + 1442695040888963407u;
      if ((random >> 60) % 2 == 0) continue;
      names.insert(value.name);
      ++named;
    }
    SCOPED_TRACE(fmt::format("round {}, {} names", round, named));
    ASSERT_GT(named, 10);
    ASSERT_EQ(test.recompute.kept_of_block.size(), 3u);
    const Steps again = run_steps(test);
    EXPECT_EQ(again.losses, kept.losses);
    EXPECT_EQ(again.state, kept.state);
  }
}

// In bf16 the backward pass recomputes the output of a layer from normalised values that were rounded, while the
// forward pass used the unrounded ones. They differ by one rounding, which affects gradients but not the first loss.
// The result of an SGD step must differ by less than a run in bf16 differs from one in fp32, because bf16 rounds every
// value of the layer and not only this one.
TEST(Recompute, InBf16ItDiffersByLessThanTheTypeRounds) {
  int checked = 0;
  for (const char* model : {"bert", "distilbert"}) {
    TinyCase test{.model_type = model,
                  .optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.0, .max_grad_norm = 0.0},
                  .layers = 4};
    const auto distance = [](const Steps& a, const Steps& b) {
      double sum = 0;
      for (size_t i = 0; i < a.weights.size(); ++i) sum += std::pow(a.weights[i] - b.weights[i], 2);
      return std::sqrt(sum);
    };
    const Steps fp32 = run_steps(test, 0xFF, 1);
    test.activations = DType::kBF16;
    test.recompute = {.policy = RecomputePolicy::kNone};
    const Steps kept = run_steps(test, 0xFF, 1);
    const double rounding = distance(kept, fp32);
    ASSERT_GT(rounding, 0.0);
    for (const RecomputeChoice& choice : choices(test)) {
      test.recompute = choice;
      SCOPED_TRACE(text_of(test));
      const Steps again = run_steps(test, 0xFF, 1);
      EXPECT_EQ(again.losses, kept.losses);
      EXPECT_LE(distance(again, kept), rounding);
      RecordProperty(fmt::format("{}_{}", model, name_of(choice)),
                     fmt::format("{:.3g} of {:.3g}", distance(again, kept), rounding));
      ++checked;
    }
  }
  EXPECT_EQ(checked, 6);
}

// Updating weights as soon as their gradients are computed makes the same updates in another order, so no bit
// may change.
TEST(Recompute, UpdatesInTheBackwardPassKeepEveryBit) {
  int checked = 0;
  for (const char* model : {"bert", "distilbert"}) {
    for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
      for (const RecomputePolicy policy : {RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
        for (const bool bf16 : {false, true}) {
          TinyCase test{.model_type = model,
                        .optimizer = {.kind = kind, .weight_decay = 0.01, .max_grad_norm = 0.0},
                        .layers = 3,
                        .recompute = {.policy = policy}};
          if (bf16) test.activations = DType::kBF16;
          SCOPED_TRACE(text_of(test));
          const Steps after = run_steps(test);
          test.optimizer_in_backward = true;
          const Steps within = run_steps(test);
          EXPECT_EQ(within.losses, after.losses);
          EXPECT_EQ(within.state, after.state);
          EXPECT_EQ(within.high_water, within.arena);
          const Steps zero = run_steps(test, 0x00);
          EXPECT_EQ(zero.state, within.state);
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 16);
}

TEST(Recompute, SameBitsWhateverTheArenaHeldAndNotAByteBeyondThePlan) {
  for (const char* model : {"bert", "distilbert", "modernbert"}) {
    for (const bool bf16 : {false, true}) {
      TinyCase test{.model_type = model, .accumulation = 2, .layers = 3};
      if (bf16) test.activations = DType::kBF16;
      for (const RecomputeChoice& choice : choices(test)) {
        test.recompute = choice;
        SCOPED_TRACE(text_of(test));
        const Steps zero = run_steps(test, 0x00);
        const Steps ones = run_steps(test, 0xFF);
        EXPECT_EQ(zero.losses, ones.losses);
        EXPECT_EQ(zero.state, ones.state);
        EXPECT_EQ(ones.high_water, ones.arena);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
