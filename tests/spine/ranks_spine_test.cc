// Tests data-parallel ranks: their step must equal that of one rank that accumulates all of their
// micro-batches. The ranks are threads of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/step_cases.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::ThreadCommunicator;
using testing::TinyCase;

const std::vector<int> kLengths{5, 9, 3};
constexpr Bucket kBucket{.tokens = 17, .sequences = 3, .longest = 9};

struct OneStep {
  std::vector<double> losses;  // losses of the micro-batches, in their order
  double norm = 0;
  std::map<std::string, std::vector<double>> weights;  // weights after the step
};

std::map<std::string, std::vector<double>> weights_of(Executor& executor) {
  std::map<std::string, std::vector<double>> all;
  for (const WeightSpec& spec : executor.plan().weights)
    all[spec.name] = testing::values_of(executor, spec.name);
  return all;
}

void expect_same_weights(const OneStep& a, const OneStep& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, values] : a.weights) EXPECT_TRUE(values == b.weights.at(name)) << name;
}

// Runs those micro-batches whose numbers are in `numbers` on one rank, and then the update.
OneStep run_step(const Plan& plan, const TinyCase& test, const std::vector<int64_t>& numbers,
                 int64_t num_batches, const ExecutorOptions& options, double rate) {
  Executor executor(plan, options);
  testing::fill_weights(executor);
  OneStep step;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const testing::TinyBatch batch = testing::tiny_batch(test, kLengths, static_cast<uint32_t>(numbers[i]));
    executor.set_accumulate(i > 0);
    const auto denominator = static_cast<double>(std::ssize(kLengths) * num_batches);
    step.losses.push_back(testing::forward_backward(executor, batch, numbers[i], denominator));
  }
  executor.set_update(rate, 1);
  executor.run(kTrainProgram, Segment::kOptimizer);
  EXPECT_TRUE(executor.finite());
  step.norm = executor.grad_norm();
  step.weights = weights_of(executor);
  return step;
}

PlanRequest request_of(TinyCase test, int64_t accumulation) {
  test.accumulation = accumulation;
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.device.num_threads = 1;
  return request;
}

struct Ranks {
  int count = 2;
  int64_t accumulation = 1;
  int64_t bucket_bytes = 512;
  bool late = false;  // if true, collective operations run as late as the plan allows
  int64_t num_batches() const { return count * accumulation; }
};

OneStep step_of_one_rank(const TinyCase& test, const Ranks& ranks, double rate) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < ranks.num_batches(); ++i) numbers.push_back(i);
  const Plan plan = build_plan(request_of(test, ranks.num_batches()));
  return run_step(plan, test, numbers, ranks.num_batches(), {}, rate);
}

// Runs one step on all ranks and returns the result of each.
std::vector<OneStep> steps_of_ranks(const TinyCase& test, const Ranks& ranks, double rate) {
  PlanRequest request = request_of(test, ranks.accumulation);
  request.ranks = {.count = ranks.count, .bucket_bytes = ranks.bucket_bytes};
  const Plan plan = build_plan(request);
  std::vector<OneStep> steps(static_cast<size_t>(ranks.count));
  testing::run_on_ranks(ranks.count, [&](ThreadCommunicator& communicator) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < ranks.accumulation; ++i) numbers.push_back(i * ranks.count + communicator.rank());
    steps[static_cast<size_t>(communicator.rank())] =
        run_step(plan, test, numbers, ranks.num_batches(),
                 {.connections = {.ranks = &communicator, .data = {.ranks = &communicator}},
                  .late_copies = ranks.late},
                 rate);
  });
  return steps;
}

// Returns, for each weight, a sum over the micro-batches: the absolute values of the changes that a step of
// SGD with only this micro-batch would make.
std::map<std::string, std::vector<double>> magnitudes(const TinyCase& test, const Ranks& ranks, double rate) {
  const Plan plan = build_plan(request_of(test, 1));
  const OneStep still = run_step(plan, test, {0}, ranks.num_batches(), {}, 0.0);
  std::map<std::string, std::vector<double>> sums;
  for (int64_t i = 0; i < ranks.num_batches(); ++i) {
    const OneStep alone = run_step(plan, test, {i}, ranks.num_batches(), {}, rate);
    for (const auto& [name, values] : still.weights) {
      std::vector<double>& sum = sums[name];
      sum.resize(values.size());
      for (size_t k = 0; k < values.size(); ++k) sum[k] += std::abs(alone.weights.at(name)[k] - values[k]);
    }
  }
  return sums;
}

std::vector<TinyCase> cases_with_sgd() {
  std::vector<TinyCase> cases = testing::step_cases();
  std::erase_if(cases, [](const TinyCase& test) {
    return test.optimizer.kind != OptimizerKind::kAdamW || test.activations || test.fp8 ||
           test.chunked_loss == ChunkedLoss::kAlways;
  });
  for (TinyCase& test : cases) {
    test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
    test.reference_kernels = true;
  }
  return cases;
}

// The reference kernels compute each matrix product in double precision and round once, when they add it to the
// accumulated gradient. Two orders of adding the gradients of n micro-batches may therefore differ by n
// roundings of partial sums, none of which is larger than the sum of the absolute values.
TEST(Ranks, AStepEqualsThatOfOneRankThatAccumulates) {
  constexpr double kRate = 0.5;
  const double u = std::ldexp(1.0, -24);
  int compared = 0;
  for (const TinyCase& test : cases_with_sgd()) {
    for (const Ranks& ranks : {Ranks{}, Ranks{.accumulation = 2}, Ranks{.count = 3, .late = true},
                               Ranks{.count = 4, .bucket_bytes = int64_t{1} << 20}}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} micro-batches each, {}", ranks.count, ranks.accumulation,
                               test.model_type));
      const OneStep one = step_of_one_rank(test, ranks, kRate);
      const std::vector<OneStep> steps = steps_of_ranks(test, ranks, kRate);
      const auto sums = magnitudes(test, ranks, kRate);
      for (int64_t i = 0; i < ranks.num_batches(); ++i) {
        const OneStep& step = steps[static_cast<size_t>(i % ranks.count)];
        EXPECT_EQ(step.losses[static_cast<size_t>(i / ranks.count)], one.losses[static_cast<size_t>(i)]);
      }
      for (const OneStep& step : steps) {
        expect_same_weights(step, steps.front());
        EXPECT_EQ(step.norm, steps.front().norm);
      }
      const double n = 2.0 * static_cast<double>(ranks.num_batches()) + 4;
      for (const auto& [name, values] : one.weights) {
        for (size_t k = 0; k < values.size(); ++k) {
          const double bound = n * u * (sums.at(name)[k] + std::abs(values[k]));
          ASSERT_NEAR(steps.front().weights.at(name)[k], values[k], bound) << name << ", " << k;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 10'000);
}

// With every optimizer and precision, all ranks must have the same bits after a step, at whatever time
// collective operations run.
TEST(Ranks, AllRanksHaveTheSameWeights) {
  int checked = 0;
  for (TinyCase test : testing::step_cases()) {
    if (test.accumulation > 1) continue;
    const Ranks ranks{.bucket_bytes = 2048};
    const std::vector<OneStep> steps = steps_of_ranks(test, ranks, 1e-2);
    expect_same_weights(steps[1], steps[0]);
    Ranks late = ranks;
    late.late = true;
    expect_same_weights(steps_of_ranks(test, late, 1e-2)[0], steps[0]);
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

// No other buffer may overlap the gradients and the scratch memory of a collective operation before it has
// ended.
TEST(Ranks, BuffersAreHeldUntilTheOperationHasEnded) {
  PlanRequest request = request_of({}, 1);
  request.ranks = {.count = 2, .bucket_bytes = 1024};
  const Plan plan = build_plan(request);
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  expect_apart(program, "train");
  int64_t scratch_of_collectives = 0;
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.root != kNoValue || !program.ops[buffer.op].is_queued()) continue;
    EXPECT_EQ(buffer.last + 1, program.ops[buffer.op].queue_end);
    EXPECT_EQ(buffer.purpose, Purpose::kFunctionality);
    ++scratch_of_collectives;
  }
  EXPECT_GE(scratch_of_collectives, 5);
}

// Each gradient must be communicated once per step, whatever the number of micro-batches, and the communicated
// bytes must be those that the plan states.
TEST(Ranks, AccumulationCommunicatesOncePerStep) {
  for (const int64_t accumulation : {1, 3}) {
    PlanRequest request = request_of({}, accumulation);
    request.ranks = {.count = 2, .bucket_bytes = 1024};
    const Plan plan = build_plan(request);
    int64_t elements = 0;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      if (!schema_of(op).is_communication()) continue;
      EXPECT_EQ(op.segment, accumulation == 1 ? Segment::kBackward : Segment::kOptimizer);
      for (const ValueId id : op.inputs)
        elements += plan.programs.at(kTrainProgram).graph.value(id).type.shape.elements({});
    }
    EXPECT_EQ(elements, plan.num_trainable_parameters());
  }
}

}  // namespace
}  // namespace plimsoll
