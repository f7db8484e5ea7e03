#include "plan/search/suggest.h"

#include <gtest/gtest.h>

#include "plan/search/testing/run_case.h"

namespace plimsoll {
namespace {

const Suggestion* find(const std::vector<Suggestion>& list, const std::string& words) {
  for (const Suggestion& suggestion : list) {
    if (suggestion.arguments.find(words) != std::string::npos) return &suggestion;
  }
  return nullptr;
}

std::vector<Suggestion> savings_of(const Plan& plan) {
  SharedGraphs shared;
  return cheapest_savings(plan, run_of(plan.request), shared);
}

std::vector<Suggestion> savings_of(const PlanRequest& request) {
  return savings_of(build_plan(request));
}

PlanRequest many_activations() {
  PlanRequest request = small_request();
  request.batches.train = {.tokens = 64 * 128, .sequences = 64, .longest = 128};
  request.batches.evaluate = {.tokens = 8 * 128, .sequences = 8, .longest = 128};
  return request;
}

TEST(Savings, EachIsAPlanThatAUserCanAskFor) {
  const Plan plan = build_plan(many_activations());
  const std::vector<Suggestion> savings = savings_of(plan);

  const Suggestion* batch = find(savings, "--per_device_train_batch_size 32 --gradient_accumulation_steps 2");
  ASSERT_NE(batch, nullptr);
  PlanRequest request = many_activations();
  request.batches.train = {.tokens = 32 * 128, .sequences = 32, .longest = 128};
  request.batches.accumulation_steps = 2;
  EXPECT_EQ(batch->total_bytes, build_plan(request).total_bytes());

  const Suggestion* length = find(savings, "--max_seq_length 64");
  ASSERT_NE(length, nullptr);
  request = many_activations();
  request.batches.train = {.tokens = 64 * 64, .sequences = 64, .longest = 64};
  request.batches.evaluate = {.tokens = 8 * 64, .sequences = 8, .longest = 64};
  EXPECT_EQ(length->total_bytes, build_plan(request).total_bytes());
}

// Suggestions must not depend on how they are computed: by several threads that share the graphs of the original plan, or by one thread
// with new graphs.
TEST(Savings, SharedGraphsAndThreadsChangeNothing) {
  for (const PlanRequest& request : {many_activations(), preset_request("gpt2", 8, 128)}) {
    const std::vector<Suggestion> alone = savings_of(request);
    SharedGraphs shared;
    const Plan plan = build_plan(request, shared);
    EXPECT_EQ(plan.total_bytes(), build_plan(request).total_bytes());
    const std::vector<Suggestion> together = cheapest_savings(plan, run_of(request), shared, 4);
    ASSERT_FALSE(alone.empty());
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].arguments, alone[i].arguments);
      EXPECT_EQ(together[i].total_bytes, alone[i].total_bytes) << alone[i].arguments;
      EXPECT_EQ(together[i].relative_time, alone[i].relative_time) << alone[i].arguments;
    }
  }
}

TEST(Savings, Bf16IsThatOfTheArgument) {
  PlanRequest request = many_activations();
  request.device.isa = CpuIsa::kAvx512Bf16;
  const std::vector<Suggestion> savings = savings_of(request);
  ASSERT_FALSE(savings.empty());
  EXPECT_EQ(savings.front().arguments, "--bf16") << "saves most, costs no time";
  EXPECT_LT(savings.front().relative_time, 1);
  request.precision.activation_dtype = DType::kBF16;  // weights stay in fp32
  const Plan bf16 = build_plan(request);
  EXPECT_EQ(savings.front().total_bytes, bf16.total_bytes());
  EXPECT_EQ(find(savings_of(request), "--bf16"), nullptr) << "it is there already";
}

TEST(Savings, Fp16NeedsNoCopyOfItsWeights) {
  PlanRequest request = many_activations();
  request.model.config = *find_preset("bert-base-uncased");
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.precision.activation_dtype = DType::kF16;
  const Plan plan = build_plan(request);
  const std::vector<Suggestion> savings = savings_of(plan);
  const Suggestion* copies = find(savings, "--weight_copies at_use");
  ASSERT_NE(copies, nullptr);
  EXPECT_EQ(copies->effect, Effect::kNone);
  request.precision.copies_at_use = true;
  const Plan changed = build_plan(request);
  EXPECT_EQ(copies->total_bytes, changed.total_bytes());
  EXPECT_EQ(find(savings_of(request), "--weight_copies"), nullptr) << "it is there already";
}

TEST(Savings, ManyLogitsAreHeldInChunks) {
  PlanRequest request = many_activations();
  request.model.config.num_labels = 200000;
  const Suggestion* chunks = find(savings_of(request), "--chunked_loss always");
  ASSERT_NE(chunks, nullptr);
}

// Changes that affect the result of training must come after all others, however much memory they save. Every listed change must save
// memory.
TEST(Savings, TheCheapestComeFirst) {
  int seen = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const std::vector<Suggestion> savings = savings_of(plan);
    EXPECT_LE(savings.size(), 3u);
    bool differs = false;
    for (const Suggestion& saving : savings) {
      ++seen;
      EXPECT_LE(saving.total_bytes, plan.total_bytes() - plan.total_bytes() / 100) << saving.arguments;
      EXPECT_FALSE(differs && saving.effect != Effect::kOtherModel) << saving.arguments;
      differs = differs || saving.effect == Effect::kOtherModel;
      EXPECT_GT(saving.relative_time, 0);
    }
  }
  EXPECT_GE(seen, 30);
}

// With half the batch of BERT-large, gradients must be accumulated, which takes more memory than the smaller batch saves. A batch of one
// sequence does save memory.
TEST(Savings, GradientsThatAccumulateAreCounted) {
  const Plan plan = build_plan(preset_request("bert-large-uncased", 4, 512));
  const std::vector<Suggestion> savings = savings_of(plan);
  const Suggestion* batch = find(savings, "--per_device_train_batch_size");
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->arguments, "--per_device_train_batch_size 1 --gradient_accumulation_steps 4");
}

TEST(Savings, ALargeEvaluationIsMadeSmaller) {
  PlanRequest request = small_request();
  request.batches.evaluate = {.tokens = 512 * 32, .sequences = 512, .longest = 32};
  const std::vector<Suggestion> savings = savings_of(request);
  ASSERT_FALSE(savings.empty());
  EXPECT_EQ(savings.front().arguments, "--per_device_eval_batch_size 256");
  EXPECT_EQ(find(savings, "--per_device_train_batch_size"), nullptr);
}

TEST(Savings, NothingIsSaidWhereNothingIsSaved) {
  PlanRequest request = small_request();
  request.update.optimizer.kind = OptimizerKind::kSgd;
  request.update.optimizer.momentum = 0;
  request.batches.train = {.tokens = 16, .sequences = 1, .longest = 16};
  request.batches.evaluate = request.batches.train;
  EXPECT_TRUE(savings_of(request).empty());
}

}  // namespace
}  // namespace plimsoll
