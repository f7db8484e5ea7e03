#include "plan/search/suggest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/search/budget.h"
#include "plan/search/change.h"
#include "plan/search/testing/run_case.h"

namespace plimsoll {
namespace {

// Returns a request for a model whose activations are so large that half the micro-batch saves more than the accumulated gradients cost.
PlanRequest large_batch_request() {
  PlanRequest request = small_request();
  request.batches.train = {.tokens = 64 * 128, .sequences = 64, .longest = 128};
  request.batches.evaluate = {.tokens = 8 * 128, .sequences = 8, .longest = 128};
  return request;
}

// Returns the bytes of the plan with half the micro-batch and two accumulation steps, which has the same effective batch.
int64_t half_batch_bytes() {
  PlanRequest request = large_batch_request();
  request.batches.train = {.tokens = 32 * 128, .sequences = 32, .longest = 128};
  request.batches.accumulation_steps = 2;
  return build_plan(request).total_bytes();
}

const Suggestion* find(const std::vector<Suggestion>& list, const std::string& words) {
  for (const Suggestion& suggestion : list) {
    if (suggestion.arguments.find(words) != std::string::npos) return &suggestion;
  }
  return nullptr;
}

TEST(Suggest, APlanThatFitsIsLeftAlone) {
  PlanRequest request = small_request();
  EXPECT_NO_THROW(require_fit(build_plan(request), run_of(request)));
  request.memory_limit_bytes = build_plan(request).total_bytes();
  EXPECT_NO_THROW(require_fit(build_plan(request), run_of(request)));
}

TEST(Suggest, OneByteTooMuchIsRefused) {
  PlanRequest request = small_request();
  request.memory_limit_bytes = build_plan(request).total_bytes() - 1;
  EXPECT_THROW(require_fit(build_plan(request), run_of(request)), Error);
}

TEST(Suggest, TheMessageSaysHowMuchWhereAndWhatFits) {
  PlanRequest request = large_batch_request();
  request.memory_limit_bytes = half_batch_bytes();
  try {
    require_fit(build_plan(request), run_of(request));
    FAIL() << "fits";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit);
    EXPECT_TRUE(text.starts_with("will not fit: ")) << text;
    for (const char* words :
         {" MiB needed, ", " MiB allowed (--memory_limit), short by ", "\n  peak is in train, ", " of layer ",
          "saved for the backward pass ", "\n  fits with, fastest first",
          "--per_device_train_batch_size 32 --gradient_accumulation_steps 2 "}) {
      EXPECT_NE(text.find(words), std::string::npos) << "no '" << words << "' in:\n" << text;
    }
  }
}

TEST(Suggest, EverySuggestionIsAPlanOfItsOwn) {
  PlanRequest request = large_batch_request();
  const Plan plan = build_plan(request);
  const int64_t limit = half_batch_bytes();
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), limit);
  const Suggestion* batch = find(list, "--per_device_train_batch_size 32 ");
  ASSERT_NE(batch, nullptr);
  EXPECT_TRUE(batch->fits);
  EXPECT_EQ(batch->total_bytes, limit);

  const Suggestion* length = find(list, "--max_seq_length 64");
  ASSERT_NE(length, nullptr);
  request = large_batch_request();
  request.batches.train = {.tokens = 64 * 64, .sequences = 64, .longest = 64};
  request.batches.evaluate = {.tokens = 8 * 64, .sequences = 8, .longest = 64};
  EXPECT_EQ(length->total_bytes, build_plan(request).total_bytes());
  EXPECT_LT(length->relative_time, 1);

  const Suggestion* sgd = find(list, "--optim sgd");
  ASSERT_NE(sgd, nullptr);
  EXPECT_FALSE(sgd->fits);
  bool seen_unfit = false;
  Effect effect = Effect::kNone;
  double last = 0;
  for (const Suggestion& suggestion : list) {
    EXPECT_EQ(suggestion.fits, suggestion.total_bytes <= limit) << suggestion.arguments;
    EXPECT_FALSE(suggestion.fits && seen_unfit) << "what fits stands first";
    seen_unfit = seen_unfit || !suggestion.fits;
    if (!suggestion.fits) continue;
    EXPECT_GE(suggestion.effect, effect) << "what trains the same first, what trains differently last";
    if (suggestion.effect != effect) last = 0;
    effect = suggestion.effect;
    EXPECT_GE(suggestion.relative_time, last) << "fastest first";
    last = suggestion.relative_time;
  }
}

// With tensor parallelism, sequence parallelism should be suggested too.
TEST(Suggest, RanksDivideRows) {
  PlanRequest request = preset_request("bert-base-uncased", 32, 128);
  request.ranks = {.count = 2, .tensor_size = 2};
  const Plan plan = build_plan(request);
  PlanRequest divided = request;
  divided.ranks.sequence_parallel = true;
  const int64_t bytes = build_plan(divided).total_bytes();
  EXPECT_LT(bytes, plan.total_bytes());
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(request), bytes);
  const Suggestion* found = find(list, "--sequence_parallel");
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->fits);
  EXPECT_EQ(found->total_bytes, bytes);
  EXPECT_EQ(found->effect, Effect::kNone);
  const std::vector<Suggestion> again = suggest_changes(build_plan(divided), run_of(divided), bytes - 1);
  EXPECT_EQ(find(again, "--sequence_parallel"), nullptr);
}

// The suggestion must be the lowest ZeRO stage that fits. A run of one rank has nothing to divide, and Adafactor's states cannot be
// divided.
TEST(Suggest, RanksDivideMore) {
  PlanRequest request = small_request();
  request.ranks = {.count = 4, .least_divided_elements = 1000};
  request.batches.accumulation_steps = 2;
  const Plan plan = build_plan(request);
  for (const ZeroStage stage : {ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights}) {
    PlanRequest divided = request;
    divided.ranks.zero_stage = stage;
    const int64_t bytes = build_plan(divided).total_bytes();
    EXPECT_LT(bytes, plan.total_bytes());
    const std::vector<Suggestion> list = suggest_changes(plan, run_of(request), bytes);
    const Suggestion* found = find(list, "--zero_stage");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->arguments, "--zero_stage " + std::to_string(static_cast<int>(stage)));
    EXPECT_TRUE(found->fits);
    EXPECT_EQ(found->total_bytes, bytes);
    EXPECT_EQ(found->effect, Effect::kNone);
  }
  request.ranks.count = 1;
  EXPECT_TRUE(higher_zero_stages(request).empty());
  request.ranks.count = 4;
  request.update.optimizer.kind = OptimizerKind::kAdafactor;
  EXPECT_TRUE(higher_zero_stages(request).empty());
}

PlanRequest bert_large_on_h200() {
  PlanRequest request = preset_request("bert-large-uncased", 4, 512);
  request.evaluate = false;
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.captured_buckets = {1, 1, 1};
  return request;
}

// Methods that make states smaller, reduce their number, or store them elsewhere are suggested if the device and the run allow it.
TEST(Suggest, MethodsOfTheTableAreTried) {
  const Plan plan = build_plan(bert_large_on_h200());
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), int64_t{5} << 30);
  for (const auto& [words, effect] : std::vector<std::pair<std::string, Effect>>{
           {"--offload_optimizer", Effect::kNone},
           {"--offload_activations", Effect::kNone},
           {"--bf16", Effect::kRounding},
           {"--dtype bfloat16", Effect::kRounding},
           {"--optim adamw_8bit", Effect::kRounding},
           {"momentum_dtype=bfloat16,variance_dtype=bfloat16", Effect::kRounding},
           {"--optim adafactor", Effect::kOtherModel},
           {"--optim sgd", Effect::kOtherModel}}) {
    const Suggestion* suggestion = find(list, words);
    ASSERT_NE(suggestion, nullptr) << words;
    EXPECT_EQ(suggestion->effect, effect) << words;
  }
  EXPECT_EQ(find(list, "--chunked_loss"), nullptr) << "of two labels";
  EXPECT_EQ(find(list, "tf32"), nullptr) << "it saves nothing";
  ASSERT_FALSE(list.empty());
  EXPECT_TRUE(list.front().fits);
  EXPECT_EQ(list.front().effect, Effect::kNone);
}

TEST(Suggest, SetsOfMethodsAreSearchedWhereNoneAloneIsEnough) {
  const Plan plan = build_plan(bert_large_on_h200());
  const int64_t limit = int64_t{3} << 30;
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), limit);
  ASSERT_GE(list.size(), 2u);
  const Suggestion& first = list.front();
  EXPECT_TRUE(first.fits);
  EXPECT_LE(first.total_bytes, limit);
  EXPECT_EQ(first.arguments, "--dtype bfloat16 --optim adamw_8bit");
  EXPECT_EQ(first.note, "rounds differently, weights without fp32 masters");
  for (const Suggestion& suggestion : list) {
    if (suggestion.fits) {
      EXPECT_EQ(suggestion.arguments.find("_seq_length"), std::string::npos) << "whole texts fit";
    }
  }
  // If the limit is below the smallest possible run, the message must state how much that run needs.
  const std::vector<Suggestion> none = suggest_changes(plan, run_of(plan.request), int64_t{1} << 30);
  const auto fits = [](const Suggestion& suggestion) { return suggestion.fits; };
  EXPECT_TRUE(std::ranges::none_of(none, fits));
  const auto smallest = std::ranges::min_element(none, {}, &Suggestion::total_bytes);
  EXPECT_NE(smallest->arguments.find("--offload_activations"), std::string::npos) << smallest->arguments;
}

// The length of random sequences is set by --dummy_seq_length, so the suggestion must name this argument.
TEST(Suggest, ShorterSequencesHaveTheArgumentOfTheirData) {
  const PlanLabels labels{.length_argument = "--dummy_seq_length", .shorter_effect = "shorter sequences"};
  const std::vector<Suggestion> list = suggest_changes(
      build_plan(large_batch_request()), run_of(large_batch_request()), half_batch_bytes(), labels);
  const Suggestion* length = find(list, "--dummy_seq_length 64");
  ASSERT_NE(length, nullptr);
  EXPECT_EQ(length->note, "shorter sequences");
  EXPECT_EQ(find(list, "--max_seq_length"), nullptr);
}

TEST(Suggest, TheEffectiveBatchStays) {
  PlanRequest request = large_batch_request();
  request.batches.train = {.tokens = 12 * 128, .sequences = 12, .longest = 128};
  request.batches.accumulation_steps = 3;
  const Plan plan = build_plan(request);
  const Suggestion* batch = nullptr;
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), plan.total_bytes() - 1);
  batch = find(list, "--per_device_train_batch_size ");
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->arguments, "--per_device_train_batch_size 6 --gradient_accumulation_steps 6");
  EXPECT_TRUE(batch->fits);
}

TEST(Suggest, RecomputingIsFoundAndTheBudgetBetweenThePolicies) {
  PlanRequest request = large_batch_request();
  request.batches.train = {.tokens = 64 * 128, .sequences = 64, .longest = 128};
  request.recompute = {.policy = RecomputePolicy::kFull};
  const int64_t full = build_plan(request).total_bytes();
  request.recompute = {};
  const Plan plan = build_plan(request);
  const int64_t limit = (full + plan.total_bytes()) / 2;
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), limit);
  const Suggestion* whole_layers = find(list, "--gradient_checkpointing");
  const Suggestion* budget = find(list, fmt::format("--recompute_budget {}MiB", limit >> 20));
  ASSERT_NE(whole_layers, nullptr);
  ASSERT_NE(budget, nullptr);
  EXPECT_EQ(whole_layers->total_bytes, full);
  EXPECT_TRUE(whole_layers->fits && budget->fits);
  EXPECT_LT(budget->relative_time, whole_layers->relative_time);
  EXPECT_EQ(whole_layers->effect, Effect::kNone);
}

// The run has --recompute selective, which --gradient_checkpointing would contradict. Therefore the suggestion must use --recompute full.
TEST(Suggest, AChoiceByPlanningIsReplacedByNamingThePolicy) {
  PlanRequest request = large_batch_request();
  RunSpec run = run_of(request);
  run.arguments.recompute = "selective";
  run.facts.recompute = choose_recompute_of(run, request).best.choice;
  request = request_of(run);
  const Plan plan = build_plan(request);
  PlanRequest least = request;
  least.recompute = {.policy = RecomputePolicy::kFull};
  least.update.optimizer.kind = OptimizerKind::kSgd;
  const std::vector<Suggestion> list = suggest_changes(plan, run, build_plan(least).total_bytes() - 1000);
  const Suggestion* full = find(list, "--recompute full");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(find(list, "--gradient_checkpointing"), nullptr);
  for (const Suggestion& suggestion : list) {
    if (suggestion.arguments.find("--recompute full") == std::string::npos) continue;
    EXPECT_EQ(suggestion.arguments.find("--recompute full"), suggestion.arguments.rfind("--recompute full"));
  }
}

TEST(Suggest, ALargeEvaluationIsMadeSmaller) {
  PlanRequest request = small_request();
  request.batches.evaluate = {.tokens = 512 * 32, .sequences = 512, .longest = 32};
  const Plan plan = build_plan(request);
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), plan.total_bytes() - 1);
  const Suggestion* evaluation = find(list, "--per_device_eval_batch_size 256");
  ASSERT_NE(evaluation, nullptr);
  EXPECT_TRUE(evaluation->fits);
}

TEST(Suggest, ChangesAreCombinedWhereNoneAloneIsEnough) {
  PlanRequest request = large_batch_request();
  request.model.config.vocab_size = 60000;
  const Plan plan = build_plan(request);
  // Tests a limit slightly above the memory that the run needs with sgd, batch size 1 and short sequences together.
  PlanRequest least = request;
  least.update.optimizer.kind = OptimizerKind::kSgd;
  least.batches.train = {.tokens = 128, .sequences = 1, .longest = 128};
  least.batches.evaluate = least.batches.train;
  least.batches.accumulation_steps = 64;
  const int64_t limit = build_plan(least).total_bytes() + 1000;
  const std::vector<Suggestion> list = suggest_changes(plan, run_of(plan.request), limit);
  ASSERT_FALSE(list.empty());
  EXPECT_TRUE(list.front().fits);
  EXPECT_NE(list.front().arguments.find("--optim sgd"), std::string::npos) << list.front().arguments;
  EXPECT_NE(list.front().arguments.find("--per_device_"), std::string::npos) << list.front().arguments;
}

TEST(Suggest, WhatCanNotFitIsSaid) {
  PlanRequest request = small_request();
  request.memory_limit_bytes = 1 << 20;
  try {
    require_fit(build_plan(request), run_of(request));
    FAIL() << "fits";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("none of the plans that were tried fits; not enough:"), std::string::npos) << text;
    EXPECT_NE(text.find("the smallest of them needs "), std::string::npos) << text;
    EXPECT_NE(text.find(" MiB more than the limit"), std::string::npos) << text;
    EXPECT_NE(text.find("use a smaller model, or raise the limit: --memory_limit "), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace plimsoll
