#include "plan/anatomy/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/anatomy/anatomy.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

int64_t sum_of(const PurposeBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

void expect_sums(const Plan& plan, const MemoryAnatomy& anatomy) {
  ASSERT_FALSE(anatomy.phases.empty());
  int64_t largest = 0;
  for (const PhaseMemory& phase : anatomy.phases) {
    SCOPED_TRACE(phase_name(phase.phase));
    EXPECT_EQ(sum_of(phase.by_purpose) + phase.gaps_bytes, phase.total_bytes);
    EXPECT_EQ(phase.arena_bytes + phase.constant_bytes, phase.total_bytes);
    EXPECT_EQ(phase.arena_bytes + phase.unused_bytes, plan.arena_bytes);
    EXPECT_EQ(phase.constant_bytes, plan.host.total());
    EXPECT_GE(phase.gaps_bytes, 0);
    EXPECT_GE(phase.unused_bytes, 0);
    for (int64_t bytes : phase.by_purpose) EXPECT_GE(bytes, 0);
    largest = std::max(largest, phase.total_bytes);
  }
  EXPECT_EQ(largest, plan.total_bytes());
  EXPECT_EQ(anatomy.phases[anatomy.largest].total_bytes, plan.total_bytes());
  EXPECT_EQ(anatomy.phases[anatomy.largest].unused_bytes, 0);
}

// Checks that the live bytes at the peak equal the lower bound of the program's memory, which the layout computes with separate code.
void expect_peak(const Plan& plan, const MemoryAnatomy& anatomy, const ProgramPlan& program, Phase phase) {
  const PeakPlace* peak = anatomy.peak_of(phase);
  ASSERT_NE(peak, nullptr);
  EXPECT_EQ(peak->live_bytes, program.lower_bound_bytes);
  EXPECT_EQ(peak->num_ops, program.graph.ops().size());
  const MemoryTimeline timeline = memory_timeline(plan, program);
  ASSERT_EQ(timeline.by_op.size(), peak->num_ops);
  EXPECT_EQ(timeline.peak, peak->position);
  EXPECT_EQ(sum_of(timeline.by_op[peak->position]), plan.persistent_bytes + peak->live_bytes);
  EXPECT_EQ(timeline.segments[peak->position], peak->segment);
}

void expect_modules(const Plan& plan, const MemoryAnatomy& anatomy) {
  ModuleMemory sum;
  for (const ModuleMemory& module : module_memory(plan)) {
    sum.num_parameters += module.num_parameters;
    sum.weight_bytes += module.weight_bytes;
    sum.state_bytes += module.state_bytes;
    sum.staging_bytes += module.staging_bytes;
  }
  const PhaseMemory& phase = anatomy.phases[anatomy.largest];
  EXPECT_EQ(sum.num_parameters, plan.num_parameters());
  EXPECT_EQ(sum.weight_bytes, phase.by_purpose[index_of(Purpose::kWeights)]);
  EXPECT_EQ(sum.state_bytes, phase.by_purpose[index_of(Purpose::kOptimizerStates)]);
  EXPECT_EQ(sum.staging_bytes, phase.by_purpose[index_of(Purpose::kStaging)]);
}

TEST(MemoryAnatomy, AddsUpForPresetsAndRandomModels) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    SCOPED_TRACE(request.model.config.model_type + " case " + std::to_string(checked));
    const Plan plan = build_plan(request);
    const MemoryAnatomy anatomy = memory_anatomy(plan);
    expect_sums(plan, anatomy);
    if (plan.trains()) expect_peak(plan, anatomy, plan.programs.at(kTrainProgram), Phase::kTrain);
    if (plan.programs.contains(kEvaluateProgram))
      expect_peak(plan, anatomy, plan.programs.at(kEvaluateProgram), Phase::kEvaluate);
    expect_modules(plan, anatomy);
    int64_t saved = 0;
    for (const SavedKind& kind : saved_kinds(plan)) saved += kind.bytes;
    const PhaseMemory* train = anatomy.find(Phase::kTrain);
    EXPECT_EQ(saved, train == nullptr ? 0 : train->by_purpose[index_of(Purpose::kSaved)]);
    ++checked;
  }
  EXPECT_GE(checked, 49);
}

TEST(MemoryAnatomy, ResumeStandsOnlyWhereThereAreStates) {
  PlanRequest request = small_request();
  EXPECT_NE(memory_anatomy(build_plan(request)).find(Phase::kResume), nullptr);
  request.update.optimizer.kind = OptimizerKind::kSgd;
  EXPECT_EQ(memory_anatomy(build_plan(request)).find(Phase::kResume), nullptr);
  request.train = false;
  const MemoryAnatomy evaluation = memory_anatomy(build_plan(request));
  EXPECT_EQ(evaluation.find(Phase::kTrain), nullptr);
  EXPECT_EQ(evaluation.find(Phase::kSave), nullptr);
  EXPECT_EQ(evaluation.phases[evaluation.largest].phase, Phase::kEvaluate);
}

TEST(MemoryAnatomy, AccumulationKeepsAGradientOfEveryParameter) {
  PlanRequest request = small_request();
  const auto gradients = [](const PlanRequest& r) {
    return memory_anatomy(build_plan(r)).find(Phase::kTrain)->by_purpose[index_of(Purpose::kGradients)];
  };
  const int64_t transient = gradients(request);
  request.batches.accumulation_steps = 2;
  const int64_t kept = gradients(request);
  EXPECT_GE(kept, 4 * build_plan(request).num_parameters());
  EXPECT_LT(transient, kept);
}

TEST(MemoryAnatomy, SavedBytesOfOneLayerAreThoseOfItsShapes) {
  // The feed-forward module saves for the backward pass, per token: one normalized row of 64 elements, the intermediate row of 256
  // elements, and the statistics of the norm, which are smaller. An element has 4 bytes.
  PlanRequest request = small_request();
  const Plan plan = build_plan(request);
  for (const ModuleMemory& module : module_memory(plan)) {
    if (module.module != "encoder.layer.0.feed_forward") continue;
    const int64_t rows = 4 * request.batches.train.tokens;
    EXPECT_GE(module.saved_bytes_at_most, rows * (64 + 256));
    EXPECT_LT(module.saved_bytes_at_most, rows * (64 + 256 + 8));
    return;
  }
  FAIL() << "no module encoder.layer.0.feed_forward";
}

TEST(MemoryAnatomy, NamesOfModulesReadWell) {
  EXPECT_EQ(describe_module("encoder.layer.23.feed_forward"), "layer 23, feed-forward");
  EXPECT_EQ(describe_module("transformer.layer.0"), "layer 0");
  EXPECT_EQ(describe_module("embeddings"), "embeddings");
  EXPECT_EQ(describe_module(""), "");
}

TEST(ParameterBytes, FormulaThatAppliesIsNamedAndExplained) {
  const auto applying = [](const PlanRequest& request) {
    const ParameterBytes parameters = parameter_bytes(build_plan(request));
    int count = 0;
    double bytes = 0;
    for (const QuotedFormula& formula : parameters.quoted) {
      if (!formula.applies) continue;
      ++count;
      bytes = formula.bytes_per_parameter;
      EXPECT_DOUBLE_EQ(static_cast<double>(formula.bytes),
                       bytes * static_cast<double>(parameters.num_parameters));
    }
    EXPECT_EQ(count, 1);
    EXPECT_FALSE(parameters.difference.empty());
    EXPECT_NEAR(parameters.weights, 4.0, 0.1) << "fp32 weights, and what alignment adds to small ones";
    return bytes;
  };
  PlanRequest request = small_request();
  EXPECT_EQ(applying(request), 16);
  request.update.optimizer.kind = OptimizerKind::kSgd;
  EXPECT_EQ(applying(request), 8);
  request.update.optimizer.momentum = 0.9;
  EXPECT_EQ(applying(request), 12);
  request.train = false;
  EXPECT_EQ(applying(request), 4);
}

}  // namespace
}  // namespace plimsoll
