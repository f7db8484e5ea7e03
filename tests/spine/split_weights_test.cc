// Weights in two parts, the bf16 that products read and what is left of fp32: the same trajectory, bit for
// bit, as with fp32 and a copy, from either form into the other, in two bytes a parameter less.
#include <gtest/gtest.h>

#include <set>

#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 16, .sequences = 4, .longest = 7};
const std::vector<int> kLengths{5, 1, 7, 3};

Plan plan_of(const TinyCase& test, MasterWeights masters) {
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.weight_copies = true;
  request.gradient_dtype = DType::kF32;  // which the CPU's optimizers read
  request.optimizer.master_weights = masters;
  return build_plan(request);
}

struct TinyRun {
  TinyCase test;
  Plan plan;
  Executor executor;
  int64_t micro = 0;
  std::vector<double> losses = {};

  TinyRun(const TinyCase& tiny, MasterWeights masters)
      : test(tiny), plan(plan_of(tiny, masters)), executor(plan) {
    testing::fill_weights(executor);
  }
  void steps(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      for (int64_t a = 0; a < test.accumulation; ++a) {
        ++micro;
        executor.set_accumulate(a > 0);
        const TinyBatch batch = testing::tiny_batch(test, kLengths, static_cast<uint32_t>(micro));
        losses.push_back(
            testing::forward_backward(executor, batch, micro, 4.0 * static_cast<double>(test.accumulation)));
      }
      executor.set_update(1e-2, step);
      executor.run(ProgramKind::kTrain, Segment::kOptimizer);
      ASSERT_TRUE(executor.finite());
    }
    executor.stage(ProgramKind::kEvaluate, testing::tiny_batch(test, kLengths, 99).view(), 4.0);
    executor.run(ProgramKind::kEvaluate, Segment::kForward);
    losses.push_back(executor.loss());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const WeightSpec& spec : plan.weights) all.push_back(spec.name);
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kOptimizerState) all.push_back(buffer.name);
    }
    return all;
  }
};

void expect_equal(const TinyRun& a, const TinyRun& b) {
  EXPECT_EQ(a.losses, b.losses);
  const std::vector<std::string> names = a.names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    EXPECT_EQ(testing::bytes_of(a.executor, name), testing::bytes_of(b.executor, name)) << name;
  }
}

std::vector<TinyCase> cases() {
  return {{.activations = DType::kBF16},
          {.model_type = "distilbert", .accumulation = 3, .activations = DType::kBF16},
          {.accumulation = 2,
           .optimizer = {.weight_decay = 0.01},
           .reference_kernels = true,
           .activations = DType::kBF16}};
}

TEST(SplitWeights, TheSameBitsAsWithACopy) {
  for (const TinyCase& test : cases()) {
    TinyRun split(test, MasterWeights::kAuto), whole(test, MasterWeights::kWhole);
    EXPECT_FALSE(split.plan.split_weights.empty());
    EXPECT_TRUE(split.plan.weight_copies.empty());
    EXPECT_TRUE(whole.plan.split_weights.empty());
    EXPECT_EQ(whole.plan.weight_copies.size(), split.plan.split_weights.size());
    split.steps(1, 6);
    whole.steps(1, 6);
    expect_equal(split, whole);
  }
}

// What a checkpoint holds is fp32 weights and states by their names: it goes from one form into the other.
TEST(SplitWeights, GoesOnInTheOtherForm) {
  for (const bool from_split : {true, false}) {
    const TinyCase test{.activations = DType::kBF16};
    const auto form = [&](bool split) { return split ? MasterWeights::kSplit : MasterWeights::kWhole; };
    TinyRun before(test, form(from_split)), after(test, form(!from_split)), expected(test, form(from_split));
    before.steps(1, 3);
    expected.steps(1, 3);
    for (const std::string& name : before.names())
      after.executor.write(name, 0, testing::bytes_of(before.executor, name));
    after.micro = expected.micro;
    after.losses = expected.losses;
    after.steps(4, 6);
    expected.steps(4, 6);
    expect_equal(after, expected);
  }
}

// Where nothing accumulates: 2 + 2 of the weight and 8 of AdamW's moments.
TEST(SplitWeights, TwelveBytesAParameter) {
  const TinyCase test{.activations = DType::kBF16};
  const Plan split = plan_of(test, MasterWeights::kSplit);
  const Plan whole = plan_of(test, MasterWeights::kWhole);
  const auto bytes_of_split = [&](const Plan& plan) {
    int64_t bytes = 0;
    for (const PersistentBuffer& buffer : plan.persistent) {
      for (const auto& [name, parts] : split.split_weights) {
        const bool belongs = buffer.name == name || buffer.name == parts.high ||
                             buffer.name == parts.remainder || buffer.name.ends_with("/" + name);
        if (belongs) bytes += buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype);
      }
    }
    return bytes;
  };
  int64_t parameters = 0;
  for (const auto& [name, parts] : split.split_weights) parameters += split.type_of(name).shape.elements({});
  EXPECT_GT(parameters, split.num_parameters() / 2);
  EXPECT_EQ(bytes_of_split(split), 12 * parameters);
  EXPECT_EQ(bytes_of_split(whole), 14 * parameters);
  EXPECT_LT(split.arena_bytes, whole.arena_bytes);
  // Embeddings and norms are read in fp32 and stay whole.
  EXPECT_FALSE(split.split_weights.contains("embeddings.word_embeddings.weight"));
  EXPECT_FALSE(split.split_weights.contains("embeddings.LayerNorm.weight"));
}

TEST(SplitWeights, Fp16AndOptimizersThatCannotKeepMasters) {
  TinyCase fp16{.reference_kernels = true, .activations = DType::kF16};
  EXPECT_TRUE(plan_of(fp16, MasterWeights::kSplit).split_weights.empty());
  TinyCase sgd{.optimizer = {.kind = OptimizerKind::kSgd}, .activations = DType::kBF16};
  const Plan plan = plan_of(sgd, MasterWeights::kAuto);
  EXPECT_TRUE(plan.split_weights.empty());
  EXPECT_FALSE(plan.weight_copies.empty());
}

}  // namespace
}  // namespace plimsoll
