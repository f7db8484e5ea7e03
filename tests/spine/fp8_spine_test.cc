// Tests training with matrix products of fp8 values ("codes"), with the reference kernels on a CPU and with
// cuBLASLt on a GPU.
//
// The expected error of a gradient is derived as follows. A value in e4m3 has 4 significant bits, one in e5m2
// has 3. Rounding a number whose significand is distributed as 1/x has a relative error of u sqrt((1 - 1/4) /
// (3 * 2 ln 2)) = 0.42 u in the root mean square. The unit roundoff u is 2^-4 for e4m3 and 2^-3 for e5m2, so
// the errors are r4 = 0.027 and r5 = 0.053. Rounding errors of different elements are independent. A sum of
// products whose terms have random signs therefore has the relative error of its terms, whatever their number:
// sqrt(2) r4 = 0.038 in the forward pass and sqrt(r4^2 + r5^2) = 0.059 in the backward pass. To first order,
// the errors of all products through which a gradient passes add up like a random walk. A layer of an encoder
// or decoder has four products (five with a gated unit). A gradient passes through at most all of them in both
// directions, and one more product computes the gradient itself:
//
// sqrt(5 L sqrt(2)^2 r4^2 + (5 L + 1) (r4^2 + r5^2)) = sqrt(L (0.0072 + 0.0174) + 0.0035) = 0.23 for L = 2
// layers
//
// Residual connections bypass the products of each half of a layer, which makes the relative error smaller. The
// bound ignores this. It includes a factor of 1.5, because the few hundred elements of a tiny model are a small
// sample, and some of them have subnormal fp8 values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/ops/ops.h"
#include "models/architecture.h"
#include "tests/spine/tiny_run.h"
#include "tests/spine/tiny_steps.h"

namespace plimsoll {
namespace {

using testing::kStepsBucket;
using testing::TinyBatch;
using testing::TinyCase;
using testing::TinySteps;

const std::vector<int> kLengths{5, 1, 7, 3};
constexpr Bucket kBucket{.tokens = 32, .sequences = 5, .longest = 8};

double gradient_bound(int64_t layers) {
  const double r4 = 0.42 * 0x1p-4, r5 = 0.42 * 0x1p-3;
  const auto products = 5.0 * static_cast<double>(layers);
  return 1.5 * std::sqrt(products * 2 * r4 * r4 + (products + 1) * (r4 * r4 + r5 * r5));
}

TinyCase fp8_case(std::string_view model) {
  return {.model_type = std::string(model), .dropout = 0.0, .activations = DType::kBF16, .fp8 = true};
}

// Returns a case that trains a language model if the architecture supports causal language modelling, otherwise
// one that trains a classifier.
TinyCase case_of(const Architecture& architecture) {
  TinyCase test = fp8_case(architecture.model_type);
  const bool is_decoder =
      std::ranges::find(architecture.heads, &kCausalLmHead, &Head::kind) != architecture.heads.end();
  if (is_decoder) test.problem_type = ProblemType::kCausalLm;
  if (is_decoder && test.model_type != "gpt2") test.hidden_act = "silu";
  return test;
}

std::vector<TinyCase> cases_of_architectures() {
  std::vector<TinyCase> cases;
  for (const Architecture* architecture : architectures()) cases.push_back(case_of(*architecture));
  return cases;
}

// Returns one case for each of four model families, whose graphs differ, for tests that make many plans.
std::vector<TinyCase> cases_of_families() {
  std::vector<TinyCase> cases;
  for (const char* model : {"bert", "gpt2", "llama", "modernbert"})
    cases.push_back(case_of(architecture_of(model)));
  return cases;
}

int count_ops(const Plan& plan, std::string_view program, const OpSchema& def) {
  return static_cast<int>(std::ranges::count(plan.programs.at(program).graph.ops(), &def, &Op::def));
}

struct GradientAndLoss {
  std::vector<double> gradient;
  double loss = 0;
};

// Returns all gradients, which are computed by one step of SGD with a learning rate of 1.
GradientAndLoss gradient_of(TinyCase test) {
  test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
  TinySteps run(test, build_plan(testing::tiny_request(test, kBucket)));
  GradientAndLoss result;
  std::vector<std::vector<double>> before;
  for (const WeightSpec& spec : run.plan.weights)
    before.push_back(testing::values_of(run.executor, spec.name));
  const TinyBatch batch = testing::tiny_batch(test, kLengths, 11);
  result.loss = testing::forward_backward(run.executor, batch, 1, 4.0);
  run.executor.set_update(1.0, 1);
  run.executor.run(kTrainProgram, Segment::kOptimizer);
  for (size_t i = 0; i < before.size(); ++i) {
    const std::vector<double> after = testing::values_of(run.executor, run.plan.weights[i].name);
    for (size_t j = 0; j < after.size(); ++j) result.gradient.push_back(before[i][j] - after[j]);
  }
  return result;
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  EXPECT_GT(norm, 0.0);
  return std::sqrt(difference / norm);
}

TEST(Fp8, GradientsAreWithinTheirErrorOfFp32) {
  int checked = 0;
  for (const TinyCase& test : cases_of_architectures()) {
    SCOPED_TRACE(test.model_type);
    TinyCase exact = test;
    exact.fp8 = false;
    exact.activations.reset();
    const GradientAndLoss fp8 = gradient_of(test), fp32 = gradient_of(exact);
    const double difference = relative_difference(fp8.gradient, fp32.gradient);
    EXPECT_LE(difference, gradient_bound(test.layers));
    EXPECT_GE(difference, 0.42 * 0x1p-4 / 4) << "nothing was rounded to fp8";
    EXPECT_NEAR(fp8.loss, fp32.loss, gradient_bound(test.layers) * fp32.loss / 4);
    ++checked;
  }
  EXPECT_GE(checked, 7);
}

// If the pass that inserts fp8 products is disabled, a run with --fp8 must have the same bits as a run in bf16.
TEST(Fp8, WithoutThePassARunIsThatOfBf16) {
  TinyCase test = fp8_case("bert");
  test.disabled_passes = {"fp8_products"};
  TinySteps fp8(test, build_plan(testing::tiny_request(test, kBucket)));
  test.disabled_passes = {};
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.precision.fp8 = false;
  TinySteps bf16(test, build_plan(request));
  fp8.steps(1, 3);
  bf16.steps(1, 3);
  expect_equal(fp8, bf16);
}

// A step must compute the same bits if any later pass is disabled, and whatever the arena contained before.
// Evaluations, which run in bf16, are not compared: on a GPU the bits of a product depend on whether its addend and its
// result share memory (matmul_cuda.h), which they do only with the pass in_place.
TEST(Fp8, PassesAndTheArenaKeepEveryBit) {
  int checked = 0;
  for (const int64_t accumulation : {1, 2}) {
    for (TinyCase test : cases_of_families()) {
      SCOPED_TRACE(test.model_type);
      test.dropout = 0.1;
      test.accumulation = accumulation;
      const auto run = [&](const TinyCase& changed, uint8_t fill) {
        auto steps = std::make_unique<TinySteps>(
            changed, build_plan(testing::tiny_request(changed, kStepsBucket)), ExecutorOptions{.fill = fill});
        steps->steps_alone(1, 2);
        return steps;
      };
      const auto whole = run(test, 0xFF);
      EXPECT_EQ(whole->executor.high_water_bytes(), whole->plan.arena_bytes);
      const auto zeros = run(test, 0x00);
      testing::expect_equal(*whole, *zeros);
      TinyCase apart = test;
      apart.separate_buffers = true;
      const auto separate = run(apart, 0xFF);
      testing::expect_equal(*whole, *separate);
      for (const char* pass : {"dead_code", "reorder", "in_place", "common_subexpression"}) {
        TinyCase without = test;
        without.disabled_passes = {pass};
        const auto other = run(without, 0xFF);
        testing::expect_equal(*whole, *other);
        ++checked;
      }
    }
  }
  EXPECT_GE(checked, 32);
}

// The fp8 values of weights may be kept from the first micro-batch of a step on, or computed again in each
// micro-batch. Both must give the same bits.
TEST(Fp8, KeptCodesOfWeightsAreThoseOfEachMicroBatch) {
  for (const bool adapters : {false, true}) {
    TinyCase test = fp8_case("bert");
    test.accumulation = 3;
    if (adapters) test.lora = LoraConfig{.r = 4, .alpha = 5.0};
    TinySteps kept(test, build_plan(testing::tiny_request(test, kBucket)));
    test.fp8_codes_at_use = true;
    TinySteps at_use(test, build_plan(testing::tiny_request(test, kBucket)));
    kept.steps(1, 3);
    at_use.steps(1, 3);
    testing::expect_equal(kept, at_use);
    const auto code_bytes = [](const Plan& plan) {
      int64_t bytes = 0;
      for (const PersistentBuffer& buffer : plan.persistent) {
        if (is_fp8(buffer.type.dtype)) bytes += buffer.type.shape.elements({});
      }
      return bytes;
    };
    // An fp8 weight takes two bytes per element, because it is stored as it is and as its transpose. In layer 0 the
    // query, key and value products stay in bf16, because they are the first products of the model. In layer 1 only
    // these three use fp8, because the products after them compute only the first token of each sequence.
    const int64_t square = test.hidden * test.hidden;
    EXPECT_EQ(code_bytes(kept.plan), 2 * ((1 + 3 + 3) * square + 3 * square));
    EXPECT_EQ(code_bytes(at_use.plan), 0);
  }
}

// Rows that pad a batch to a compiled batch size (bucket) must not change the results: neither the scale of a tensor
// nor a sum may depend on them.
TEST(Fp8, UnusedRowsOfABucketChangeNothing) {
  for (const TinyCase& test : cases_of_families()) {
    SCOPED_TRACE(test.model_type);
    TinySteps tight(test, build_plan(testing::tiny_request(test, kStepsBucket)));
    TinySteps loose(test,
                    build_plan(testing::tiny_request(test, {.tokens = 160, .sequences = 9, .longest = 40})));
    tight.lengths = loose.lengths = {5, 1, 7, 3};
    tight.steps_alone(1, 1);
    loose.steps_alone(1, 1);
    if (testing::tests_run_on_gpu()) {
      EXPECT_NEAR(tight.losses[0], loose.losses[0], 0x1p-6 * tight.losses[0]);
    } else {
      testing::expect_equal(tight, loose);
    }
  }
}

TEST(Fp8, EveryChoiceOfRecomputationComputesTheSameGradient) {
  for (TinyCase test : cases_of_families()) {
    SCOPED_TRACE(test.model_type);
    test.recompute.policy = RecomputePolicy::kNone;
    const GradientAndLoss kept = gradient_of(test);
    for (const RecomputePolicy policy : {RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
      test.recompute.policy = policy;
      const GradientAndLoss again = gradient_of(test);
      EXPECT_EQ(again.loss, kept.loss);
      // The recomputed activations are derived from values that were rounded to bf16, so an activation may be
      // rounded to the next fp8 value.
      EXPECT_LE(relative_difference(again.gradient, kept.gradient), gradient_bound(test.layers) / 4);
    }
  }
}

// With fp8, training must not need more memory for saved activations than in bf16. The fp8 values that the
// backward pass needs are either stored in 8 bits, or computed again from values that are stored in bf16 too.
// Each scale additionally needs the smallest amount of memory that the arena can reserve.
TEST(Fp8, SavedActivationsAreNotLargerThanInBf16) {
  for (const RecomputePolicy policy :
       {RecomputePolicy::kNone, RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
    TinyCase test = fp8_case("bert");
    test.recompute.policy = policy;
    test.hidden = 64;
    const Bucket large{.tokens = 4096, .sequences = 32, .longest = 128};
    const Plan fp8 = build_plan(testing::tiny_request(test, large));
    PlanRequest request = testing::tiny_request(test, large);
    request.precision.fp8 = false;
    const Plan bf16 = build_plan(request);
    int64_t scale_bytes = 0;
    for (const Value& value : fp8.programs.at(kTrainProgram).graph.values()) {
      if (value.name.ends_with(".scale")) scale_bytes += arena_alignment(fp8.request.device.kind);
    }
    // With full recomputation, the memory peak is at an op during which the widest gradient, that of a feed-forward layer, exists three
    // times: in bf16, in fp8, and in fp8 transposed. On a GPU the peak may be at this op even with less recomputation, because the op also
    // needs the workspace of a matrix product.
    const bool is_wider = policy == RecomputePolicy::kFull || fp8.is_on_gpu();
    const int64_t widest = large.tokens * fp8.request.model.config.intermediate_size;
    EXPECT_LE(fp8.arena_bytes, bf16.arena_bytes + scale_bytes + (is_wider ? 2 * widest : 0));
    if (policy == RecomputePolicy::kNone && !fp8.is_on_gpu()) {
      EXPECT_LT(fp8.arena_bytes, bf16.arena_bytes);
    }
  }
}

// An infinite or NaN value must reach the norm of all gradients, whose check then skips the update.
TEST(Fp8, ANumberThatIsNotFiniteIsFound) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    TinyCase test = fp8_case("bert");
    TinySteps run(test, build_plan(testing::tiny_request(test, kBucket)));
    const std::string weight = run.plan.weights[8].name;
    testing::set_value(run.executor, weight, 3, bad);
    const TinyBatch batch = testing::tiny_batch(test, kLengths, 1);
    testing::forward_backward(run.executor, batch, 1, 4.0);
    run.executor.set_update(1e-2, 1);
    run.executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_FALSE(run.executor.finite()) << weight;
  }
}

// Only training uses fp8 products, and not for the first and the last product of the model. Evaluations compute all products in bf16.
TEST(Fp8, EvaluationAndTheFirstAndLastLayerStayInBf16) {
  TinyCase test = fp8_case("bert");
  const Plan plan = build_plan(testing::tiny_request(test, kBucket));
  EXPECT_EQ(count_ops(plan, kEvaluateProgram, scaled_matmul_op()), 0);
  // The products after the last attention compute only the first token of each sequence, and stay in bf16. 4 other products use fp8.
  EXPECT_EQ(count_ops(plan, kTrainProgram, scaled_matmul_op()), 3 * 4);
  test.model_type = "gpt2";
  test.problem_type = ProblemType::kCausalLm;
  EXPECT_EQ(count_ops(build_plan(testing::tiny_request(test, kBucket)), kTrainProgram, scaled_matmul_op()),
            3 * 7);
}

// In fp8, a tiny model must learn as it does in bf16. Each step changes the loss in proportion to its gradient,
// whose relative error is at most gradient_bound(). After the loss has fallen by D, the losses therefore differ
// by at most about this fraction of D.
TEST(Fp8, TwentyStepsReachTheLossOfBf16) {
  for (TinyCase test : cases_of_families()) {
    SCOPED_TRACE(test.model_type);
    test.optimizer = {.kind = OptimizerKind::kAdamW};
    const auto losses = [&](bool fp8) {
      test.fp8 = fp8;
      PlanRequest request = testing::tiny_request(test, kBucket);
      TinySteps run(test, build_plan(request));
      for (int64_t step = 1; step <= 20; ++step) {
        const TinyBatch batch = testing::tiny_batch(test, kLengths, 1);
        run.losses.push_back(testing::forward_backward(run.executor, batch, step, 4.0));
        run.executor.set_update(1e-2, step);
        run.executor.run(kTrainProgram, Segment::kOptimizer);
        EXPECT_TRUE(run.executor.finite());
      }
      return run.losses;
    };
    const std::vector<double> fp8 = losses(true), bf16 = losses(false);
    const double fall = bf16.front() - bf16.back();
    EXPECT_GT(fall, 0.0);
    EXPECT_NEAR(fp8.back(), bf16.back(), gradient_bound(test.layers) * fall);
  }
}

}  // namespace
}  // namespace plimsoll
