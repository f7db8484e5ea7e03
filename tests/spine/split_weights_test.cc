// Tests weights that are stored in two parts: the bf16 value that matrix products read, and the remaining bits
// of fp32. Training must give the same bits as with fp32 weights and a bf16 copy, while it needs two bytes less
// per parameter. A run must be able to switch from either form to the other.
#include <gtest/gtest.h>

#include "tests/spine/tiny_steps.h"

namespace plimsoll {
namespace {

using testing::TinyCase;

Plan plan_of(const TinyCase& test, MasterWeights masters) {
  PlanRequest request = testing::tiny_request(test, testing::kStepsBucket);
  request.precision.weight_copies = true;
  request.precision.gradient_dtype = DType::kF32;  // the optimizer kernels for CPUs need gradients in fp32
  request.update.optimizer.master_weights = masters;
  return build_plan(request);
}

struct TinyRun : testing::TinySteps {
  TinyRun(const TinyCase& tiny, MasterWeights masters) : TinySteps(tiny, plan_of(tiny, masters)) {}
};

std::vector<TinyCase> cases() {
  return {{.activations = DType::kBF16},
          {.model_type = "distilbert", .accumulation = 3, .activations = DType::kBF16},
          {.accumulation = 2,
           .optimizer = {.weight_decay = 0.01},
           .reference_kernels = !testing::tests_run_on_gpu(),
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

// Checkpoints contain weights in fp32 and states by name, so a run must be able to switch between split weights
// and fp32 weights with a copy.
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

// Without gradient accumulation, a run must keep 12 bytes per parameter: 2 for each half of the weight, and 8
// for AdamW's moments.
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
  // Embeddings and norms must not be split, because their kernels read fp32 weights.
  EXPECT_FALSE(split.split_weights.contains("embeddings.word_embeddings.weight"));
  EXPECT_FALSE(split.split_weights.contains("embeddings.LayerNorm.weight"));
}

TEST(SplitWeights, Fp16AndOptimizersThatCannotKeepMasters) {
  TinyCase fp16{.reference_kernels = !testing::tests_run_on_gpu(), .activations = DType::kF16};
  EXPECT_TRUE(plan_of(fp16, MasterWeights::kSplit).split_weights.empty());
  TinyCase sgd{.optimizer = {.kind = OptimizerKind::kSgd}, .activations = DType::kBF16};
  const Plan plan = plan_of(sgd, MasterWeights::kAuto);
  EXPECT_TRUE(plan.split_weights.empty());
  EXPECT_FALSE(plan.weight_copies.empty());
}

}  // namespace
}  // namespace plimsoll
