// Tests ranks that divide optimizer states, gradients and weights (ZeRO stages 1 to 3). Their steps must equal
// those of ranks that all hold everything. The ranks are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "graph/ops/slice.h"
#include "kernels/element_wise/rounding.h"
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
  bool keeps = false;  // weights gathered for the forward pass are kept for the backward pass
  bool late = false;   // collective operations run as late as the plan allows
  int num_steps = 3;
  bool updates_on_first = false;  // the first rank updates all weights, as with --data_parallel_mode dp
  // Matrix products read 16-bit copies of the weights, or the upper halves of split weights, as on GPUs.
  bool copies = false;
  MasterWeights master_weights = MasterWeights::kAuto;
};

// The results of one rank after some steps.
struct Result {
  std::vector<double> norms;
  std::map<std::string, std::vector<double>> weights;
  // The loss of an evaluation after the first step, and of one after the last step.
  std::vector<double> evaluation_losses;
};

Plan plan_of(const TinyCase& test, const Ranks& ranks) {
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.device.num_threads = 1;
  request.precision.weight_copies = ranks.copies;
  request.update.optimizer.master_weights = ranks.master_weights;
  request.ranks = {.count = ranks.count,
                   .zero_stage = ranks.stage,
                   .updates_on_first = ranks.updates_on_first,
                   .least_divided_elements = 17,
                   .keeps_gathered = ranks.keeps,
                   .bucket_bytes = 2048};
  return build_plan(request);
}

double evaluation_loss(Executor& executor, const TinyCase& test) {
  testing::stage(executor, kEvaluateProgram, testing::tiny_batch(test, kLengths, 7), 3.0);
  executor.run(kEvaluateProgram, Segment::kForward);
  return executor.loss();
}

Result run_steps(const Plan& plan, const TinyCase& test, const Ranks& ranks, Communicator& communicator) {
  Executor executor(plan, {.connections = {.ranks = &communicator, .data = {.ranks = &communicator}},
                           .late_copies = ranks.late});
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
    // In fp16 the first loss scale may be so large that gradients overflow and the step is skipped. In all
    // other cases the gradients must be finite.
    if (!plan.scales_loss()) {
      EXPECT_TRUE(executor.finite());
      EXPECT_EQ(executor.first_bad_gradient(), "");
    }
    result.norms.push_back(executor.grad_norm());
    // In stages 1 and 2, the forward pass of a step gathers weights, unless an evaluation has done it before.
    if (step == 1) result.evaluation_losses.push_back(evaluation_loss(executor, test));
  }
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage == Storage::kWeight)
      result.weights[buffer.name] = testing::values_of(executor, buffer.name);
  }
  result.evaluation_losses.push_back(evaluation_loss(executor, test));
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
  // In the following cases weights and second moments are rounded stochastically.
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

// Returns a bound for the relative difference of two gradient norms that are computed in different ways.
// Without accumulation only the norm itself is rounded differently. With accumulation, a gradient is a sum of
// at most 12 terms in two orders, each with one rounding per term. The terms may have different signs; the
// sum is assumed to be at least 1/8 of the sum of the absolute values.
double norm_bound(const TinyCase& test) {
  if (test.accumulation == 1) return 3e-7;
  return 8 * 2 * 12 * unit_roundoff(test.dtype == DType::kF64 ? DType::kF64 : DType::kF32) + 3e-7;
}

void expect_same_weights(const Result& a, const Result& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, values] : a.weights) EXPECT_TRUE(values == b.weights.at(name)) << name;
}

// Returns the number of bytes of all persistent buffers of this storage class.
int64_t bytes_of(const Plan& plan, Storage storage) {
  int64_t bytes = 0;
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage == storage) bytes += buffer.bytes;
  }
  return bytes;
}

std::vector<Result> results_in_stage(const TinyCase& test, Ranks ranks, ZeroStage stage) {
  ranks.stage = stage;
  return results_of_ranks(test, ranks);
}

// Without gradient accumulation, the ranks add the same numbers in the same order in every ZeRO stage. Without clipping nothing else
// differs, so weights must have the same bits with every optimizer and precision. With accumulation, stages 2 and 3 add up slices after the
// sum over the ranks, which is another order than in stages 0 and 1. Stage 1 must then agree with stage 0, and stage 3 with stage 2.
TEST(Zero, StepsEqualThoseOfRanksWithAllStates) {
  int compared = 0;
  for (TinyCase test : sharded_cases()) {
    test.optimizer.max_grad_norm = 0.0;
    for (const Ranks& ranks : {Ranks{}, Ranks{.count = 3, .late = true}}) {
      // With three ranks only stage 3 is tested, because it divides everything that stages 1 and 2 divide.
      struct Division {
        ZeroStage stage;
        bool keeps = false;
      };
      std::vector<Division> divisions{{ZeroStage::kWeights}};
      if (ranks.count == 2)
        divisions.insert(divisions.end(),
                         {{ZeroStage::kStates}, {ZeroStage::kGradients}, {ZeroStage::kWeights, true}});
      SCOPED_TRACE(describe(test, ranks));
      const std::vector<Result> whole = results_in_stage(test, ranks, ZeroStage::kNone);
      const bool accumulates = test.accumulation > 1;
      std::vector<Result> gradients = whole;
      if (accumulates) gradients = results_in_stage(test, ranks, ZeroStage::kGradients);
      for (const auto& [stage, keeps] : divisions) {
        SCOPED_TRACE(static_cast<int>(stage));
        const std::vector<Result> found =
            results_in_stage(test, {.count = ranks.count, .keeps = keeps, .late = ranks.late}, stage);
        const Result& expected = stage == ZeroStage::kStates ? whole.front() : gradients.front();
        for (const Result& result : found) {
          expect_same_weights(result, expected);
          EXPECT_EQ(result.evaluation_losses, expected.evaluation_losses);
          EXPECT_EQ(result.norms, found.front().norms);
          // Each rank rounds the norm of its slices to fp32, and the norm of all gradients is computed from
          // these and rounded again, so it may differ by rounding.
          EXPECT_NEAR(result.norms.front(), whole.front().norms.front(),
                      norm_bound(test) * whole.front().norms.front());
        }
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 150);
}

// With --data_parallel_mode dp the first rank updates all weights. It adds the same numbers in the same order
// as ranks that all update, so weights and losses must have the same bits on every rank.
TEST(Zero, UpdatesOfTheFirstRankEqualThoseOfAllRanks) {
  int compared = 0;
  for (TinyCase test : sharded_cases()) {
    test.optimizer.max_grad_norm = 0.0;
    for (const Ranks& ranks : {Ranks{}, Ranks{.count = 3, .late = true}}) {
      SCOPED_TRACE(describe(test, ranks));
      const std::vector<Result> whole = results_in_stage(test, ranks, ZeroStage::kNone);
      Ranks on_first = ranks;
      on_first.updates_on_first = true;
      for (const Result& result : results_of_ranks(test, on_first)) {
        expect_same_weights(result, whole.front());
        EXPECT_EQ(result.evaluation_losses, whole.front().evaluation_losses);
        EXPECT_NEAR(result.norms.front(), whole.front().norms.front(),
                    norm_bound(test) * whole.front().norms.front());
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 60);
}

// If the first rank updates all weights, it holds all optimizer states. All ranks use its plan and reserve the
// same memory.
TEST(Zero, UpdatesOfTheFirstRankNeedAllStates) {
  const TinyCase test{.hidden = 64};
  const Plan whole = plan_of(test, {.count = 2, .stage = ZeroStage::kNone});
  const Plan on_first = plan_of(test, {.count = 2, .updates_on_first = true});
  EXPECT_EQ(bytes_of(on_first, Storage::kOptimizerState), bytes_of(whole, Storage::kOptimizerState));
  EXPECT_EQ(bytes_of(on_first, Storage::kWeight), bytes_of(whole, Storage::kWeight));
}

// With clipping, the clip coefficient may differ in its last bits, but it must be the same on all ranks.
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

// Each rank must reserve memory for exactly its slice of what its ZeRO stage divides. Buffers begin at
// multiples of 64 bytes.
TEST(Zero, EachRankHasRoomForItsSlices) {
  const auto in_arena = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  for (const int count : {2, 3, 4}) {
    const TinyCase test{.accumulation = 2, .hidden = 64};
    const Plan whole = plan_of(test, {.count = count, .stage = ZeroStage::kNone});
    const RankSlices slices{.ranks = count};
    for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
      const Plan divided = plan_of(test, {.count = count, .stage = stage});
      int64_t states = 0, gradients = 0, weights = 0;
      for (const PersistentBuffer& buffer : whole.persistent) {
        if (buffer.type.shape.depends_on_bucket()) continue;
        const int64_t elements = buffer.whole_elements();
        const int64_t slice = slices.size(elements);
        if (buffer.storage == Storage::kOptimizerState) states += in_arena(4 * slice);
        if (buffer.storage == Storage::kGradient)
          gradients += in_arena(4 * (stage >= ZeroStage::kGradients ? slice : elements));
        if (buffer.storage == Storage::kWeight)
          weights += in_arena(4 * (stage >= ZeroStage::kWeights && elements >= 17 ? slice : elements));
      }
      EXPECT_EQ(bytes_of(divided, Storage::kOptimizerState), states);
      EXPECT_EQ(bytes_of(divided, Storage::kGradient), gradients);
      EXPECT_EQ(bytes_of(divided, Storage::kWeight), weights);
      EXPECT_LT(states, bytes_of(whole, Storage::kOptimizerState) * 6 / 5 / count);
    }
  }
}

// Only updates read the lower halves of split weights, and the fp32 weights of which 16-bit copies exist. Every ZeRO stage therefore
// divides these tensors among the ranks. Steps must have the same bits as those of ranks that each have whole tensors.
TEST(Zero, EachRankHasASliceOfWhatOnlyUpdatesRead) {
  const RankSlices slices{.ranks = 2};
  struct Form {
    DType activations;
    MasterWeights master_weights;
  };
  for (const Form& form :
       {Form{DType::kBF16, MasterWeights::kSplit}, Form{DType::kBF16, MasterWeights::kWhole},
        Form{DType::kF16, MasterWeights::kWhole}}) {
    SCOPED_TRACE(dtype_name(form.activations));
    TinyCase test{.reference_kernels = true, .hidden = 64, .activations = form.activations};
    test.optimizer.max_grad_norm = 0.0;
    const Ranks ranks{.copies = true, .master_weights = form.master_weights};
    const Plan plan = plan_of(test, ranks);
    for (const auto& [weight, halves] : plan.split_weights) {
      EXPECT_FALSE(plan.buffer(halves.high).divided) << weight;
      EXPECT_EQ(plan.buffer(halves.remainder).elements(),
                2 * slices.size(plan.buffer(halves.high).elements()))
          << weight;
    }
    for (const WeightCopy& pair : plan.weight_copies) {
      EXPECT_FALSE(plan.buffer(pair.copy).divided) << pair.weight;
      EXPECT_EQ(plan.buffer(pair.weight).elements(), slices.size(plan.buffer(pair.copy).elements()))
          << pair.weight;
    }
    EXPECT_EQ(plan.split_weights.empty(), form.master_weights == MasterWeights::kWhole);
    EXPECT_EQ(plan.weight_copies.empty(), form.master_weights == MasterWeights::kSplit);
    const std::vector<Result> whole = results_in_stage(test, ranks, ZeroStage::kNone);
    for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
      SCOPED_TRACE(static_cast<int>(stage));
      for (const Result& result : results_in_stage(test, ranks, stage)) {
        expect_same_weights(result, whole.front());
        EXPECT_EQ(result.evaluation_losses, whole.front().evaluation_losses);
      }
    }
  }
}

// If a gradient in the slice of any rank is infinite or NaN, no rank may update its weights, and all ranks must
// name the same gradient.
TEST(Zero, AllRanksSkipAnUpdateWithANumberThatIsNotFinite) {
  const TinyCase test;
  for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
    const Plan plan = plan_of(test, {.count = 2, .stage = stage});
    std::vector<std::string> bad(2);
    testing::run_on_ranks(2, [&](ThreadCommunicator& communicator) {
      Executor executor(plan, {.connections = {.ranks = &communicator, .data = {.ranks = &communicator}}});
      testing::fill_weights(executor);
      executor.zero_states();
      executor.set_accumulate(false);
      const testing::TinyBatch batch = testing::tiny_batch(test, kLengths, 1);
      // Makes the gradients of rank 0 infinite by dividing its loss by almost zero.
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
}

}  // namespace
}  // namespace plimsoll
