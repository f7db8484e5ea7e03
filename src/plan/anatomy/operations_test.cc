#include "plan/anatomy/operations.h"

#include <gtest/gtest.h>

#include <functional>

#include "plan/anatomy/plan_case.h"
#include "target/gpu_target.h"

namespace plimsoll {
namespace {

TEST(OperationsAnatomy, SumsEqualThoseOfTheOps) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const ProgramPlan& program = plan.train ? *plan.train : *plan.evaluate;
    const OperationsAnatomy operations = operations_anatomy(plan);
    OpTotals by_op;
    for (const OpEstimate& op : estimate_ops(plan, program)) {
      const auto runs = static_cast<double>(op.runs_per_step);
      by_op += {op.flops * runs, op.bytes * runs, op.ms * runs};
      EXPECT_GE(op.flops, 0);
      EXPECT_GE(op.bytes, 0);
      EXPECT_FALSE(op.kernel.empty()) << op.op;
    }
    OpTotals by_group;
    OpTotals by_segment;
    for (int g = 0; g < kNumOpGroups; ++g) by_group += operations.group(static_cast<OpGroup>(g));
    for (int s = 0; s < kNumSegments; ++s) by_segment += operations.segment(static_cast<Segment>(s));
    // Sums of the same terms in another order: 600 terms of 2^-53 each.
    const double tolerance = 1e-12;
    EXPECT_NEAR(by_group.flops, by_op.flops, tolerance * by_op.flops);
    EXPECT_NEAR(by_group.bytes, by_op.bytes, tolerance * by_op.bytes);
    EXPECT_NEAR(by_segment.ms, by_op.ms, tolerance * by_op.ms);
    EXPECT_NEAR(operations.total().ms, by_op.ms, tolerance * by_op.ms);
    EXPECT_GT(operations.samples_per_s(), 0);
    ++checked;
  }
  EXPECT_GE(checked, 49);
}

TEST(OperationsAnatomy, ProductsOfBertAreThoseOfItsShapes) {
  // Linear layers: 2 flops x tokens x weights, forward once and backward twice (the first layer's inputs are
  // embeddings, whose gradient is wanted too). Behind the last layer's attention one row a sequence is
  // computed, the one that the pooler reads.
  const PlanRequest request = preset_request("bert-base-uncased", 8, 128);
  const Plan plan = build_plan(request);
  const double tokens = 8 * 128;
  const double behind_attention = 768.0 * 768 + 2.0 * 768 * 3072;
  const double layer = 3.0 * 768 * 768 + behind_attention;
  const double linear = 2 * tokens * (12 * layer - behind_attention) + 2 * 8 * behind_attention;
  const double attention = 12 * 4.0 * 8 * 128 * 128 * 768;
  const OperationsAnatomy operations = operations_anatomy(plan);
  const auto& products = operations.by_group[index_of(OpGroup::kContraction)];
  EXPECT_NEAR(products[index_of(Segment::kForward)].flops, linear + attention, 0.02 * linear);
  EXPECT_GE(products[index_of(Segment::kBackward)].flops, 2 * linear);
  EXPECT_LT(products[index_of(Segment::kBackward)].flops, 2.2 * (linear + attention));
}

// The table of docs/measurements/h200-2026-11-21.md, and of TF32 its later figure: what
// target/gpu_efficiency.h was fitted to. The bound is what is promised of predictions on a calibrated device.
TEST(OperationsAnatomy, StepsOfAnH200ComeOutAsMeasured) {
  struct Case {
    const char* model;
    int64_t sequences;
    int64_t longest;
    int64_t accumulation;
    bool bf16;
    bool tf32;
    double samples_per_s;
  };
  // Short texts have 53 tokens in the mean.
  const Case kCases[] = {{"bert-large-uncased", 32, 512, 1, true, false, 392.0},
                         {"bert-large-uncased", 4, 512, 1, false, false, 39.6},
                         {"bert-large-uncased", 4, 512, 1, true, false, 298.0},
                         {"bert-large-uncased", 1, 512, 4, true, false, 143.8},
                         {"bert-large-uncased", 32, 512, 1, false, true, 196.0},
                         {"bert-large-uncased", 1, 512, 1, false, false, 29.5},
                         {"bert-large-uncased", 1, 512, 4, false, false, 31.0},
                         {"bert-large-uncased", 8, 512, 1, false, false, 41.4},
                         {"bert-large-uncased", 4, 512, 1, false, true, 152.0},
                         {"bert-base-uncased", 32, 53, 1, true, false, 7638.0}};
  for (const Case& c : kCases) {
    PlanRequest request = preset_request(c.model, c.sequences, c.longest);
    request.device = KernelDevice::kCuda;
    request.gpu = *find_gpu_target("h200");
    request.gradient_accumulation_steps = c.accumulation;
    if (c.bf16) request.activation_dtype = DType::kBF16;
    request.fp32_products = c.tf32 ? Fp32Products::kTf32 : Fp32Products::kF32;
    const double predicted = operations_anatomy(build_plan(request)).samples_per_s();
    EXPECT_NEAR(predicted / c.samples_per_s, 1, 0.15)
        << c.model << " " << c.sequences << " x " << c.longest << ", accumulation " << c.accumulation << ": "
        << predicted << " predicted";
    RecordProperty(std::to_string(c.sequences) + "x" + std::to_string(c.longest),
                   std::to_string(predicted / c.samples_per_s));
  }
}

// What target/cpu_efficiency.h was fitted to, the single ops of it: whole steps in processor time, which
// others on the machine disturb least. Of `bench --one_run` with 4 x 512 of MiniLM-L6-H384 on one thread of
// that Zen 4, the time of five steps less that of one, over four.
TEST(OperationsAnatomy, StepsOfAZen4ComeOutAsMeasured) {
  struct Case {
    const char* name;
    double step_ms;
    std::function<void(PlanRequest&)> change;
  };
  const auto split = [](PlanRequest& r) {
    r.train_bucket = {.tokens = 512, .sequences = 1, .longest = 512};
    r.gradient_accumulation_steps = 4;
  };
  const Case kCases[] = {
      {"vanilla", 1768, [](PlanRequest&) {}},
      {"checkpointing", 2107, [](PlanRequest& r) { r.recompute.policy = RecomputePolicy::kFull; }},
      {"bf16", 1170, [](PlanRequest& r) { r.activation_dtype = DType::kBF16; }},
      {"accumulation", 1791, split},
      {"moments in bf16", 1766,
       [](PlanRequest& r) {
         r.optimizer.momentum_dtype = DType::kBF16;
         r.optimizer.variance_dtype = DType::kBF16;
       }},
      {"accumulation, checkpointing, bf16, 8 bits", 1475, [&](PlanRequest& r) {
         split(r);
         r.recompute.policy = RecomputePolicy::kFull;
         r.activation_dtype = DType::kBF16;
         r.optimizer.kind = OptimizerKind::kAdamW8Bit;
       }}};
  for (const Case& c : kCases) {
    PlanRequest request = preset_request("MiniLM-L6-H384-uncased", 4, 512);
    request.evaluate = false;
    request.isa = CpuIsa::kAvx512Bf16;
    request.num_threads = 1;
    c.change(request);
    const double predicted = operations_anatomy(build_plan(request)).total().ms;
    EXPECT_NEAR(predicted / c.step_ms, 1, 0.15) << c.name << ": " << predicted << " ms predicted";
    RecordProperty(c.name, std::to_string(predicted / c.step_ms));
  }
}

TEST(OperationsAnatomy, AccumulationRepeatsForwardAndBackwardOnly) {
  PlanRequest request = small_request();
  const OperationsAnatomy one = operations_anatomy(build_plan(request));
  request.gradient_accumulation_steps = 3;
  const OperationsAnatomy three = operations_anatomy(build_plan(request));
  EXPECT_DOUBLE_EQ(three.segment(Segment::kForward).flops, 3 * one.segment(Segment::kForward).flops);
  EXPECT_DOUBLE_EQ(three.segment(Segment::kOptimizer).flops, one.segment(Segment::kOptimizer).flops);
  EXPECT_EQ(three.samples, 12);
  EXPECT_EQ(three.tokens, 384);
}

TEST(OperationsAnatomy, ProductsOnTensorCoresShortenTheEstimateOnAGpu) {
  PlanRequest request = preset_request("bert-large-uncased", 4, 512);
  request.device = KernelDevice::kCuda;
  request.gpu = *find_gpu_target("h200");
  const auto ms = [&](Fp32Products products) {
    request.fp32_products = products;
    return operations_anatomy(build_plan(request)).total().ms;
  };
  const double fp32 = ms(Fp32Products::kF32);
  const double three = ms(Fp32Products::kTf32x3);
  const double one = ms(Fp32Products::kTf32);
  EXPECT_LT(one, three);
  EXPECT_LT(three, fp32);
  EXPECT_GT(three, 1.5 * one);
}

TEST(OperationsAnatomy, FasterInstructionsAndMoreThreadsShortenTheEstimate) {
  PlanRequest request = preset_request("all-MiniLM-L6-v2", 32, 128);
  const double avx512 = operations_anatomy(build_plan(request)).total().ms;
  request.isa = CpuIsa::kAvx2;
  EXPECT_GT(operations_anatomy(build_plan(request)).total().ms, avx512);
  request.isa = CpuIsa::kAvx512;
  request.num_threads = 1;
  EXPECT_NEAR(operations_anatomy(build_plan(request)).total().ms, 2 * avx512, 0.1 * avx512);
}

}  // namespace
}  // namespace plimsoll
