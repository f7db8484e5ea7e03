#include "plan/search/budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/anatomy/operations.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

RecomputeOutcome with_policy(PlanRequest request, RecomputePolicy policy) {
  request.recompute = {.policy = policy};
  const Plan plan = build_plan(request);
  return {.total_bytes = plan.total_bytes(), .step_ms = operations_anatomy(plan).total().ms};
}

struct BudgetCase {
  std::string preset;
  int64_t sequences;
  int64_t longest;
  int64_t accumulation;
  bool bf16;
  std::string gpu;
};

PlanRequest request_of(const BudgetCase& test) {
  PlanRequest request = preset_request(test.preset, test.sequences, test.longest);
  request.batches.accumulation_steps = test.accumulation;
  if (test.bf16) {
    request.precision.activation_dtype = DType::kBF16;
    request.device.isa = CpuIsa::kAmx;
  }
  if (!test.gpu.empty()) {
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = *find_gpu_target(test.gpu);
    request.captured_buckets = {1, 1, 1};
  }
  return request;
}

// Checks the choice for some budgets between the memory needed with full recomputation (0 tenths) and the memory needed without
// recomputation (10 tenths). Adds to `faster` the number of budgets for which the choice is faster than every policy that fits.
void expect_never_worse(const PlanRequest& request, const std::vector<int>& tenths, int& faster) {
  std::vector<RecomputeOutcome> fixed;
  for (const RecomputePolicy policy :
       {RecomputePolicy::kNone, RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
    fixed.push_back(with_policy(request, policy));
  }
  const int64_t least = fixed.back().total_bytes;
  const int64_t most = fixed.front().total_bytes;
  for (const int tenth : tenths) {
    const int64_t budget = least + (most - least) * tenth / 10;
    const BudgetChoice found = choose_recompute(request, budget);
    EXPECT_LE(found.best.total_bytes, budget) << tenth;
    double fastest = 0;
    for (const RecomputeOutcome& policy : fixed) {
      if (policy.total_bytes > budget) continue;
      EXPECT_LE(found.best.step_ms, policy.step_ms) << tenth;
      fastest = fastest == 0 ? policy.step_ms : std::min(fastest, policy.step_ms);
    }
    faster += found.best.step_ms < fastest ? 1 : 0;
    // The bytes and times that the search reports must equal those of a plan that is built separately with its choice.
    PlanRequest chosen = request;
    chosen.recompute = found.best.choice;
    const Plan plan = build_plan(chosen);
    EXPECT_EQ(plan.total_bytes(), found.best.total_bytes);
    EXPECT_EQ(operations_anatomy(plan).total().ms, found.best.step_ms);
    EXPECT_LE(static_cast<double>(plan.programs.at(kTrainProgram).transient_bytes),
              1.02 * static_cast<double>(plan.programs.at(kTrainProgram).lower_bound_bytes))
        << tenth;
  }
}

TEST(Budget, IsKeptAndNeverSlowerThanAPolicyThatFits) {
  int faster = 0;
  int cases = 0;
  for (const std::string& preset : preset_names()) {
    const BudgetCase test{.preset = preset,
                          .sequences = cases % 2 == 0 ? 16 : 32,
                          .longest = 128,
                          .accumulation = cases % 3 == 0 ? 2 : 1,
                          .bf16 = cases % 2 == 1,
                          .gpu = cases % 4 == 3 ? "h200" : ""};
    SCOPED_TRACE(preset);
    expect_never_worse(request_of(test), {1, 5}, faster);
    ++cases;
  }
  EXPECT_GE(cases, 5);
  EXPECT_GE(faster, cases) << "mixing pays between the policies";
}

// Only full recomputation fits into the lowest of the four budgets, so the choice can be faster than the policies for the other three only.
TEST(Budget, MixesWhereNoPolicyUsesTheBudgetUp) {
  int faster = 0;
  expect_never_worse(request_of({"bert-large-uncased", 32, 512, 1, true, "h200"}), {0, 1, 3, 7}, faster);
  EXPECT_EQ(faster, 3);
}

TEST(Budget, WhatFitsWithoutRecomputingKeepsEverything) {
  const PlanRequest request = small_request();
  const RecomputeOutcome none = with_policy(request, RecomputePolicy::kNone);
  const BudgetChoice found = choose_recompute(request, none.total_bytes);
  EXPECT_EQ(found.best.name, "none");
  EXPECT_EQ(found.num_plans, 3);
  EXPECT_NE(describe_budget_choice(found, "a budget").find("a budget: --recompute none ("), std::string::npos)
      << describe_budget_choice(found, "a budget");
}

TEST(Budget, SaysByHowMuchNothingFits) {
  const PlanRequest request = small_request();
  try {
    static_cast<void>(choose_recompute(request, 1 << 20));
    FAIL() << "fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit);
    const std::string text = error.what();
    EXPECT_NE(text.find("--recompute_budget 1.0 MiB: nothing fits. The smallest total found is "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(" MiB more; give --recompute_budget "), std::string::npos) << text;
    EXPECT_NE(text.find("or a smaller --per_device_train_batch_size or --max_seq_length"), std::string::npos)
        << text;
  }
  try {
    static_cast<void>(choose_recompute(request, 1 << 20, {.length_argument = "--dummy_seq_length"}));
    FAIL() << "fits";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("or a smaller --per_device_train_batch_size or --dummy_seq_length"),
              std::string::npos)
        << text;
  }
}

// The plan with kSelective may spend only the allowed share of a step on recomputation. It must need less memory than the plan with
// kCheap, and must not be slower than the plan that a search finds for a budget of the same number of bytes.
TEST(Selective, BuysBytesForItsShareOfAStep) {
  const BudgetCase cases[] = {{"bert-large-uncased", 32, 512, 1, true, "h200"},
                              {"bert-large-uncased", 4, 512, 1, false, "h200"},
                              {"bert-large-uncased", 8, 128, 4, true, "h200"},
                              {"bert-base-uncased", 32, 128, 1, false, ""},
                              {"distilbert-base-uncased", 32, 256, 1, true, ""}};
  for (const BudgetCase& test : cases) {
    SCOPED_TRACE(test.preset);
    const PlanRequest request = request_of(test);
    const RecomputeOutcome cheap = with_policy(request, RecomputePolicy::kCheap);
    const BudgetChoice found = choose_selective(request);
    EXPECT_EQ(found.best.name, "chosen");
    EXPECT_LT(found.best.total_bytes, cheap.total_bytes);
    EXPECT_LE(found.best.step_ms, (1 + kSelectiveShareOfStep) * cheap.step_ms);
    EXPECT_GE(found.best.step_ms, (1 + kSelectiveShareOfStep / 2) * cheap.step_ms) << "time is left over";
    PlanRequest chosen = request;
    chosen.recompute = found.best.choice;
    const Plan plan = build_plan(chosen);
    EXPECT_EQ(plan.total_bytes(), found.best.total_bytes);
    EXPECT_EQ(operations_anatomy(plan).total().ms, found.best.step_ms);
    const BudgetChoice budget = choose_recompute(request, found.best.total_bytes);
    EXPECT_LE(found.best.step_ms, 1.005 * budget.best.step_ms);
    EXPECT_EQ(describe_budget_choice(found, "selective").find("too much"), std::string::npos);
  }
}

// The search estimates times from a layer in the middle of the model. Of only four layers, the last one, which differs from the others,
// takes a large share of the time, so the search must correct its estimate by the time of the plan.
TEST(Selective, CorrectsItsTimeByThatOfThePlan) {
  PlanRequest request = request_of({"bert-base-uncased", 8, 256, 1, false, ""});
  request.model.config.num_hidden_layers = 4;
  request.model.config.vocab_size = 1000;
  request.device.num_threads = 1;
  const RecomputeOutcome cheap = with_policy(request, RecomputePolicy::kCheap);
  const BudgetChoice found = choose_selective(request);
  EXPECT_LT(found.best.total_bytes, cheap.total_bytes);
  EXPECT_LE(found.best.step_ms, (1 + kSelectiveShareOfStep) * cheap.step_ms);
}

// With one sequence the peak is at the update of the weights. Recomputation does not reduce this peak, so nothing should be recomputed.
TEST(Selective, ComputesNothingAgainWhereThatFreesNothing) {
  const PlanRequest request = request_of({"bert-large-uncased", 1, 128, 1, false, "h200"});
  const BudgetChoice found = choose_selective(request);
  EXPECT_EQ(found.best.name, "none");
}

TEST(Budget, SmallModelsHaveBudgetsToo) {
  for (const int64_t layers : {1, 2, 3}) {
    PlanRequest request = small_request();
    request.model.config.num_hidden_layers = layers;
    request.batches.train = {.tokens = 64 * 128, .sequences = 64, .longest = 128};
    int faster = 0;
    expect_never_worse(request, {0, 5, 10}, faster);
  }
}

}  // namespace
}  // namespace plimsoll
