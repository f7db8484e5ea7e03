// Tests losses that are computed in chunks of rows. Training must give the same results as without chunks, up
// to the order of summation, and the plan must be smaller by the size of the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/ops.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_steps.h"
#include "tests/support/keep_worst.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

// The program is compiled for batches of five sequences. The test's batches have four, so one row of the loss is
// unused. The loss is computed in chunks of 2, 2 and 1 rows.
constexpr Bucket kBucket{.tokens = 24, .sequences = 5, .longest = 8};

int count_of(const Graph& graph, const OpSchema& def) {
  return static_cast<int>(std::ranges::count(graph.ops(), &def, &Op::def));
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> weights;
};

// Runs two steps of SGD, with which an error of a gradient changes the weight in proportion. The second label of
// each batch is ignored by the loss.
Trained run_of(TinyCase test, ChunkedLoss chunked) {
  test.chunked_loss = chunked;
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.precision.weight_copies = test.activations == DType::kF16;
  const Plan plan = build_plan(request);
  const bool expected = chunked == ChunkedLoss::kAlways;
  EXPECT_EQ(count_of(plan.programs.at(kTrainProgram).graph, linear_cross_entropy_op()) +
                count_of(plan.programs.at(kTrainProgram).graph, linear_cross_entropy_with_gradients_op()),
            expected ? 1 : 0);
  EXPECT_EQ(count_of(plan.programs.at(kTrainProgram).graph, softmax_cross_entropy_op()), expected ? 0 : 1);
  EXPECT_EQ(count_of(plan.programs.at(kEvaluateProgram).graph, linear_cross_entropy_op()), 0);
  Executor executor(plan, {.fill = 0xFF});
  testing::fill_weights(executor);
  Trained run;
  int64_t micro = 0;
  for (int64_t step = 1; step <= 2; ++step) {
    // The learning rate and the step are set before the backward pass, because with optimizer_in_backward it contains
    // the updates.
    executor.set_update(1e-1, step);
    for (int64_t a = 0; a < test.accumulation; ++a) {
      TinyBatch batch = testing::tiny_batch(test, {5, 1, 7, 3}, static_cast<uint32_t>(++micro));
      batch.class_labels[1] = -100;
      executor.set_accumulate(a > 0);
      run.losses.push_back(
          testing::forward_backward(executor, batch, micro, 3.0 * static_cast<double>(test.accumulation)));
    }
    executor.run(kTrainProgram, Segment::kOptimizer);
  }
  for (const WeightSpec& spec : plan.weights) {
    for (const double value : testing::values_of(executor, spec.name)) run.weights.push_back(value);
  }
  return run;
}

struct ChunkedCase {
  const char* name;
  TinyCase test;
};
std::vector<ChunkedCase> chunked_cases() {
  const auto sgd = [](TinyCase test) {
    test.optimizer = {.kind = OptimizerKind::kSgd, .max_grad_norm = 0.0};
    return test;
  };
  TinyCase head = sgd({});
  head.freeze = {"classifier.weight"};
  TinyCase body = sgd({.accumulation = 2});
  body.freeze = {"bert.*"};
  TinyCase lora = sgd({});
  lora.lora = LoraConfig{.r = 3, .alpha = 5.0};
  TinyCase fp16 = sgd({.reference_kernels = true, .activations = DType::kF16});
  return {{"fp32", sgd({})},
          {"smoothing", sgd({.label_smoothing = 0.1})},
          {"accumulated", sgd({.accumulation = 3, .label_smoothing = 0.1})},
          {"distilbert", sgd({.model_type = "distilbert"})},
          {"references", sgd({.reference_kernels = true})},
          {"doubles", sgd({.dtype = DType::kF64, .reference_kernels = true})},
          {"in the backward pass", sgd({.optimizer_in_backward = true})},
          {"frozen head", head},
          {"frozen body", body},
          {"adapters", lora},
          {"bf16", sgd({.activations = DType::kBF16})},
          {"bf16, accumulated", sgd({.accumulation = 2, .activations = DType::kBF16})},
          {"fp16", fp16}};
}

// The tolerances: in fp32, sums of some hundred terms have an error of 2^-24 per term, over two steps. In 16
// bits, a logit, its gradient or a gradient of a weight may be rounded to the other neighbour, which changes a
// number below 1 by up to 2^-8 in bf16 and 2^-11 in fp16.
TEST(ChunkedLoss, TrainsAsWithout) {
  int checked = 0;
  for (const ChunkedCase& item : chunked_cases()) {
    SCOPED_TRACE(item.name);
    const Trained with = run_of(item.test, ChunkedLoss::kAlways);
    const Trained without = run_of(item.test, ChunkedLoss::kNever);
    const double tolerance = item.test.activations ? 0x1p-8 : 0x1p-18;
    ASSERT_EQ(with.losses.size(), without.losses.size());
    for (size_t i = 0; i < with.losses.size(); ++i)
      EXPECT_NEAR(with.losses[i], without.losses[i], tolerance * (1.0 + without.losses[i]));
    ASSERT_EQ(with.weights.size(), without.weights.size());
    double worst = 0.0;
    for (size_t i = 0; i < with.weights.size(); ++i)
      test::keep_worst(worst, std::abs(with.weights[i] - without.weights[i]));
    EXPECT_LE(worst, 0.1 * tolerance);
    ++checked;
  }
  EXPECT_GE(checked, 12);
}

// A run that stops and resumes must give the same bits as one that does not stop, because a step reads only values
// that are saved in checkpoints.
TEST(ChunkedLoss, GoesOnWithTheSameBits) {
  for (const std::optional<DType> activations : {std::optional<DType>(), std::optional(DType::kBF16)}) {
    const TinyCase test{.accumulation = 2, .activations = activations, .chunked_loss = ChunkedLoss::kAlways};
    const auto plan = [&] { return build_plan(testing::tiny_request(test, testing::kStepsBucket)); };
    testing::TinySteps whole(test, plan());
    whole.steps(1, 4);
    testing::TinySteps first(test, plan());
    first.steps(1, 2);
    testing::TinySteps rest(test, plan());
    for (const std::string& name : first.names())
      rest.executor.write(name, 0, testing::bytes_of(first.executor, name));
    rest.micro = first.micro;
    rest.steps(3, 4);
    // The resumed run has only the later losses, so the earlier losses are removed from the uninterrupted run
    // before both are compared.
    whole.losses.erase(whole.losses.begin(), whole.losses.end() - std::ssize(rest.losses));
    testing::expect_equal(whole, rest);
  }
}

PlanRequest many_labels(const std::string& gpu, ChunkedLoss chunked) {
  GridPoint point = full_batch("bert-base-uncased", 256, 32);
  point.gpu = gpu;
  PlanRequest request = request_of(point);
  request.model.config.num_labels = 100000;
  request.batches.evaluate = {.tokens = 8 * 32, .sequences = 8, .longest = 32};
  request.chunked_loss = chunked;
  return request;
}

// All logits need 97.7 MiB, and those of a chunk of 32 rows 12.2 MiB. While the loss is computed, no other
// buffer is as large.
TEST(ChunkedLoss, ThePlanIsSmallerByTheLogits) {
  constexpr int64_t kLogits = int64_t{256} * 100000 * 4;
  for (const char* gpu : {"", "h200"}) {
    SCOPED_TRACE(gpu);
    const Plan whole = build_plan(many_labels(gpu, ChunkedLoss::kNever));
    const Plan chunked = build_plan(many_labels(gpu, ChunkedLoss::kAuto));
    EXPECT_TRUE(chunks_loss(chunked.request, chunked.request.batches.train));
    EXPECT_FALSE(chunks_loss(whole.request, whole.request.batches.train));
    EXPECT_GE(whole.arena_bytes - chunked.arena_bytes, kLogits);
    expect_near_lower_bound(chunked.programs.at(kTrainProgram), gpu);
    int scratches = 0;
    for (size_t i = 0; i < chunked.programs.at(kTrainProgram).ops.size(); ++i) {
      const Op& op = chunked.programs.at(kTrainProgram).graph.ops()[i];
      for (ValueId id : op.outputs)
        EXPECT_NE(chunked.programs.at(kTrainProgram)
                      .graph.value(id)
                      .bytes(chunked.programs.at(kTrainProgram).bucket),
                  kLogits);
      if (!op.def->name().starts_with("linear_cross_entropy")) continue;
      EXPECT_EQ(op.attributes.integer("chunk_rows"), 32);
      // The scratch memory consists of the logits of one chunk, the workspace of matrix products, and memory
      // for sums.
      EXPECT_GT(chunked.programs.at(kTrainProgram).ops[i].scratch_bytes, kLogits / 8);
      EXPECT_LT(chunked.programs.at(kTrainProgram).ops[i].scratch_bytes, kLogits / 8 + (int64_t{40} << 20));
      ++scratches;
    }
    EXPECT_EQ(scratches, 3);
  }
}

TEST(ChunkedLoss, IsTakenFromSixtyFourMebibytesOn) {
  PlanRequest request = many_labels("", ChunkedLoss::kAuto);
  request.model.config.num_labels = 65536;
  EXPECT_FALSE(chunks_loss(request, request.batches.train));
  EXPECT_EQ(count_of(build_plan(request).programs.at(kTrainProgram).graph, linear_cross_entropy_op()), 0);
  request.model.config.num_labels = 65537;
  EXPECT_TRUE(chunks_loss(request, request.batches.train));
  EXPECT_EQ(count_of(build_plan(request).programs.at(kTrainProgram).graph, linear_cross_entropy_op()), 1);
  request.passes.disabled = {"chunked_loss"};
  EXPECT_EQ(count_of(build_plan(request).programs.at(kTrainProgram).graph, linear_cross_entropy_op()), 0);
}

}  // namespace
}  // namespace plimsoll
