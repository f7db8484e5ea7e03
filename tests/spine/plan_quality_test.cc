// Compares memory layouts with their lower bound, for sizes between the smallest and the largest that are used
// in training. plan_grid_test tests all known models (presets) and sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "plan/compile/testing/plan_case.h"
#include "tests/spine/attention_again.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

struct Size {
  int64_t sequences;
  int64_t longest;
};

// The extent of recomputation in the backward pass, from nothing to whole layers.
enum class Again : uint8_t { kNothing, kCheap, kCheapAndAttention, kLayers };
constexpr std::array kAgain{Again::kNothing, Again::kCheap, Again::kCheapAndAttention, Again::kLayers};

RecomputeChoice choice_of(Again again, const PlanRequest& request) {
  switch (again) {
    case Again::kNothing:
      return {.policy = RecomputePolicy::kNone};
    case Again::kCheap:
      return {.policy = RecomputePolicy::kCheap};
    case Again::kCheapAndAttention:
      return testing::attention_again(request, RecomputePolicy::kCheap);
    case Again::kLayers:
      return {.policy = RecomputePolicy::kFull};
  }
  return {};
}

Plan plan_of(const GridPoint& point, Again again) {
  PlanRequest request = request_of(point);
  request.recompute = choice_of(again, request);
  return build_plan(request);
}

std::string text_of(const GridPoint& point, Again again) {
  constexpr const char* kWords[] = {"nothing", "what is cheap", "that and attention", "layers"};
  return text_of(point) + ", again: " + kWords[static_cast<size_t>(again)];
}

TEST(PlanQuality, PresetsAreNearTheirLowerBoundFromSmallToLarge) {
  int programs = 0;
  for (const std::string& preset : preset_names()) {
    for (const Size& size : {Size{1, 16}, Size{4, 512}, Size{8, 128}, Size{32, 24}, Size{32, 64}}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        GridPoint point = full_batch(preset, size.sequences, size.longest);
        point.activations = dtype;
        point.accumulation = size.longest == 128 ? 4 : 1;
        const Plan plan = plan_of(point);
        expect_near_lower_bound(plan.programs.at(kTrainProgram), text_of(point));
        expect_near_lower_bound(plan.programs.at(kEvaluateProgram), text_of(point));
        programs += 2;
      }
    }
  }
  EXPECT_GE(programs, 100);
}

TEST(PlanQuality, RecomputingStaysNearItsLowerBound) {
  int plans = 0;
  for (const std::string& preset : preset_names()) {
    for (const Size& size : {Size{1, 64}, Size{4, 512}, Size{32, 64}}) {
      for (const Again again : kAgain) {
        // Changes the type of the activations and the gradient accumulation from plan to plan, so that each
        // amount of recomputation is tested with both types, with and without accumulation.
        const int turn = plans + plans / static_cast<int>(kAgain.size());
        GridPoint point = full_batch(preset, size.sequences, size.longest);
        point.activations = turn % 2 == 0 ? DType::kF32 : DType::kBF16;
        point.accumulation = turn % 4 < 2 ? 1 : 3;
        const Plan plan = plan_of(point, again);
        const std::string text = text_of(point, again);
        expect_near_lower_bound(plan.programs.at(kTrainProgram), text);
        EXPECT_LT(plan.build_ms, 2000) << text;
        ++plans;
      }
    }
  }
  EXPECT_GE(plans, 100);
}

// Each entry of kAgain recomputes more values than the one before, so its plan must need less memory and have more ops.
TEST(PlanQuality, WhatRunsMoreAgainHoldsLess) {
  for (const std::string& preset : preset_names()) {
    GridPoint point = full_batch(preset, 32, 128);
    // With accumulation, gradients are persistent, so that the temporary memory consists of activations.
    point.accumulation = 2;
    int64_t bytes = std::numeric_limits<int64_t>::max();
    size_t ops = 0;
    for (const Again again : kAgain) {
      const Plan plan = plan_of(point, again);
      EXPECT_LT(plan.programs.at(kTrainProgram).transient_bytes, bytes) << text_of(point, again);
      EXPECT_GT(plan.programs.at(kTrainProgram).graph.ops().size(), ops) << text_of(point, again);
      bytes = plan.programs.at(kTrainProgram).transient_bytes;
      ops = plan.programs.at(kTrainProgram).graph.ops().size();
    }
  }
}

// These batches are hard to lay out: the gradients at the end of the backward pass need about as many bytes as
// the activations at its start, so unused gaps between buffers waste the most memory. Placing buffers in order of
// size or of lifetime alone would leave gaps of 3 to 9 %. Sequences differ in length, so such batches can have any
// number of tokens.
TEST(PlanQuality, BatchesWhoseGradientsAndActivationsAreEquallyLarge) {
  const GridPoint points[] = {
      {.preset = "all-MiniLM-L6-v2", .bucket = {.tokens = 813, .sequences = 24, .longest = 55}},
      {.preset = "bert-base-cased",
       .bucket = {.tokens = 2322, .sequences = 29, .longest = 372},
       .activations = DType::kBF16},
      {.preset = "bert-base-cased", .bucket = {.tokens = 1024, .sequences = 8, .longest = 128}},
      {.preset = "bert-large-uncased", .bucket = {.tokens = 1561, .sequences = 56, .longest = 173}},
      {.preset = "MiniLM-L6-H384-uncased",
       .bucket = {.tokens = 1676, .sequences = 12, .longest = 496},
       .activations = DType::kBF16,
       .num_threads = 1},
  };
  for (const GridPoint& point : points) {
    const Plan plan = plan_of(point);
    expect_near_lower_bound(plan.programs.at(kTrainProgram), text_of(point));
    EXPECT_GT(expect_apart(plan.programs.at(kTrainProgram), text_of(point)), 1000);
  }
}

// The project requires that 90 % of all layouts need at most 1.10 times their lower bound. This test requires more of the plans of random
// models: 90 % must be within a factor of 1.01, and all within 1.05.
TEST(PlanQuality, RandomModelsAreNearTheirLowerBound) {
  std::vector<double> ratios;
  for (uint64_t seed = 100; seed < 300; ++seed) {
    const Plan plan = build_plan(random_request(seed));
    for (const ProgramPlan& program : plan.programs) {
      ratios.push_back(static_cast<double>(program.transient_bytes) /
                       static_cast<double>(program.lower_bound_bytes));
    }
  }
  ASSERT_GE(ratios.size(), 200u);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_LE(ratios[ratios.size() * 9 / 10], 1.01);
  EXPECT_LE(ratios.back(), 1.05);
}

}  // namespace
}  // namespace plimsoll
