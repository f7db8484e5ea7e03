#include "plan/anatomy/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "hardware/gpu_target.h"
#include "plan/compile/op_times.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

TEST(OperationsAnatomy, SumsEqualThoseOfTheOps) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const ProgramPlan& program = plan.programs.first();
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
    // The two sums add the same terms in different orders, so they may differ by rounding. There are about 600 terms, and adding each one
    // rounds by at most 2^-53 of the sum.
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
  // Expected FLOPs of linear layers: 2 x tokens x weights for the forward pass and twice that for the backward pass. The first layer also
  // needs the gradient of its input, because this is the output of the embeddings. After the attention of the last layer, only one row
  // per sequence is computed, which the pooler reads.
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

// Compares predicted step times with those measured in bench/results/h200-2026-11-22.md, to which the rates in hardware/gpu_efficiency.h
// were fitted. For a device to which the rates were fitted, predictions must be within 10 %.
TEST(OperationsAnatomy, StepsOfAnH200ComeOutAsMeasured) {
  struct Case {
    const char* name;
    int64_t sequences;
    double samples_per_s;
    std::function<void(PlanRequest&)> change;
  };
  const auto plain = [](PlanRequest&) {};
  const auto in = [](DType dtype) {
    return [dtype](PlanRequest& r) { r.precision.activation_dtype = dtype; };
  };
  const auto products = [](Fp32Products kind) {
    return [kind](PlanRequest& r) { r.precision.fp32_products = kind; };
  };
  const auto four_times = [](PlanRequest& r) { r.batches.accumulation_steps = 4; };
  const auto checkpointing = [](PlanRequest& r) { r.recompute.policy = RecomputePolicy::kFull; };
  const auto both = [](auto a, auto b) {
    return [a, b](PlanRequest& r) {
      a(r);
      b(r);
    };
  };
  const auto adafactor = [](PlanRequest& r) { r.update.optimizer.kind = OptimizerKind::kAdafactor; };
  const auto seventh = both(both(in(DType::kF16), adafactor), both(four_times, checkpointing));
  const Case kCases[] = {
      {"fp32", 4, 40.5, plain},
      {"fp32", 1, 30.4, plain},
      {"fp32", 8, 42.3, plain},
      {"fp32", 32, 43.1, plain},
      {"SGD", 4, 40.98, [](PlanRequest& r) { r.update.optimizer.kind = OptimizerKind::kSgd; }},
      {"checkpointing", 4, 33.48, checkpointing},
      {"accumulation", 1, 31.83, four_times},
      {"accumulation, checkpointing", 1, 25.6, both(four_times, checkpointing)},
      {"LoRA", 4, 53.9, [](PlanRequest& r) { r.model.lora = LoraConfig{}; }},
      {"tf32", 4, 160, products(Fp32Products::kTf32)},
      {"tf32", 32, 201.4, products(Fp32Products::kTf32)},
      {"tf32x3", 4, 64.5, products(Fp32Products::kTf32x3)},
      {"bf16", 32, 450.9, in(DType::kBF16)},
      {"bf16, accumulation", 1, 176, both(in(DType::kBF16), four_times)},
      {"fp16", 4, 311.7, in(DType::kF16)},
      {"fp16, accumulation", 1, 172.7, both(in(DType::kF16), four_times)},
      {"fp16, accumulation, checkpointing", 1, 142.7, both(in(DType::kF16), both(four_times, checkpointing))},
      {"fp16, accumulation, checkpointing, Adafactor", 1, 144.7, seventh},
      {"the same, copies at use", 1, 126,
       both(seventh, [](PlanRequest& r) { r.precision.copies_at_use = true; })}};
  for (const Case& c : kCases) {
    PlanRequest request = preset_request("bert-large-uncased", c.sequences, 512);
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = *find_gpu_target("h200");
    c.change(request);
    const double predicted = operations_anatomy(build_plan(request)).samples_per_s();
    EXPECT_NEAR(predicted / c.samples_per_s, 1, 0.10)
        << c.name << ", " << c.sequences << " x 512: " << predicted << " predicted";
    RecordProperty(std::string(c.name) + std::to_string(c.sequences),
                   std::to_string(predicted / c.samples_per_s));
  }
  // The last case has short texts of 53 tokens on average; 7798 samples per second were measured.
  PlanRequest request = preset_request("bert-base-uncased", 32, 53);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.precision.activation_dtype = DType::kBF16;
  EXPECT_NEAR(operations_anatomy(build_plan(request)).samples_per_s() / 7798.0, 1, 0.10);
}

// Attention takes most of the time of one causal sequence of 16384 tokens. Its ops took 325.5 ms by `train --profile` (see
// gpu_attention_gain()).
TEST(OperationsAnatomy, AStepWithALongSequenceComesOutAsMeasured) {
  PlanRequest request = preset_request("Llama-3.2-1B", 1, 16384);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.precision.activation_dtype = DType::kBF16;
  EXPECT_NEAR(operations_anatomy(build_plan(request)).samples_per_s() * 0.3255, 1, 0.10);
}

// Compares predicted steps on one and on two H200, in samples per second, with those measured in bench/results/h200-2026-11-30.md. The two
// GPUs divide optimizer states and map each other's memory.
TEST(OperationsAnatomy, StepsOfTwoH200ComeOutAsMeasured) {
  struct Case {
    const char* model;
    ProblemType task;
    DType activations;
    int64_t sequences, longest;
    double of_one, of_two;
  };
  constexpr auto kClasses = ProblemType::kSingleLabel, kWords = ProblemType::kCausalLm;
  for (const Case& c : {Case{"bert-large-uncased", kClasses, DType::kBF16, 32, 512, 438.8, 856.6},
                        Case{"bert-large-uncased", kClasses, DType::kF16, 4, 512, 303.0, 606.9},
                        Case{"gpt2", kWords, DType::kBF16, 16, 1024, 483.7, 935.8},
                        Case{"TinyLlama-1.1B-Chat-v1.0", kWords, DType::kBF16, 4, 2048, 34.0, 67.4}}) {
    PlanRequest request = preset_request(c.model, c.sequences, c.longest);
    request.model.problem_type = c.task;
    request.model.config.problem_type = c.task;
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = *find_gpu_target("h200");
    request.precision.activation_dtype = c.activations;
    EXPECT_NEAR(operations_anatomy(build_plan(request)).samples_per_s() / c.of_one, 1, 0.10) << c.model;
    request.ranks.count = 2;
    request.ranks.maps_peers = true;
    request.ranks.zero_stage = ZeroStage::kStates;
    EXPECT_NEAR(operations_anatomy(build_plan(request)).samples_per_s() / c.of_two, 1, 0.10)
        << c.model << " on two GPUs";
  }
}

// Compares predicted step times with measured ones, to which the rates in hardware/cpu_efficiency.h were fitted: MiniLM-L6-H384, 4
// sequences of 512 tokens, on one thread of a Zen 4. The measured times are processor times, which other processes disturb less than
// wall-clock times. The time of a run with one step was subtracted from that of a run with five steps, and the difference divided by four
// (`bench --one_run`).
TEST(OperationsAnatomy, StepsOfAZen4ComeOutAsMeasured) {
  struct Case {
    const char* name;
    double step_ms;
    std::function<void(PlanRequest&)> change;
  };
  const auto split = [](PlanRequest& r) {
    r.batches.train = {.tokens = 512, .sequences = 1, .longest = 512};
    r.batches.accumulation_steps = 4;
  };
  const Case kCases[] = {
      {"vanilla", 1768, [](PlanRequest&) {}},
      {"checkpointing", 2107, [](PlanRequest& r) { r.recompute.policy = RecomputePolicy::kFull; }},
      {"bf16", 1170, [](PlanRequest& r) { r.precision.activation_dtype = DType::kBF16; }},
      {"accumulation", 1791, split},
      {"moments in bf16", 1766,
       [](PlanRequest& r) {
         r.update.optimizer.momentum_dtype = DType::kBF16;
         r.update.optimizer.variance_dtype = DType::kBF16;
       }},
      {"accumulation, checkpointing, bf16, 8 bits", 1475, [&](PlanRequest& r) {
         split(r);
         r.recompute.policy = RecomputePolicy::kFull;
         r.precision.activation_dtype = DType::kBF16;
         r.update.optimizer.kind = OptimizerKind::kAdamW8Bit;
       }}};
  for (const Case& c : kCases) {
    PlanRequest request = preset_request("MiniLM-L6-H384-uncased", 4, 512);
    request.evaluate = false;
    request.device.isa = CpuIsa::kAvx512Bf16;
    request.device.num_threads = 1;
    c.change(request);
    const double predicted = operations_anatomy(build_plan(request)).total().ms;
    EXPECT_NEAR(predicted / c.step_ms, 1, 0.15) << c.name << ": " << predicted << " ms predicted";
    RecordProperty(c.name, std::to_string(predicted / c.step_ms));
  }
}

// Compares predicted step times with those that `train --profile` measured on two cores with AMX of the host of an H200 (2026-11-23):
// MiniLM-L6-H384, 4 sequences of 512 tokens, 17 steps. Two pairs of cores were measured, and the times are from the pair that other
// processes disturbed less.
TEST(OperationsAnatomy, StepsOnTilesComeOutAsMeasured) {
  PlanRequest request = preset_request("MiniLM-L6-H384-uncased", 4, 512);
  request.evaluate = false;
  request.device.isa = CpuIsa::kAmx;
  request.device.num_threads = 2;
  const auto over = [&](double step_ms) {
    return operations_anatomy(build_plan(request)).total().ms / step_ms;
  };
  request.precision.activation_dtype = DType::kBF16;
  EXPECT_NEAR(over(352), 1, 0.15);
  // Checks that a calibration (measured times of ops on this machine) corrects the estimate.
  const Plan plan = build_plan(request);
  double expected = 0;
  for (const OpEstimate& op : estimate_ops(plan, plan.programs.at(kTrainProgram)))
    expected += (op.op == "attention_bwd" ? 2 : 1) * op.ms;
  request.cpu_calibration.factors[DType::kBF16]["attention_bwd"] = 2;
  request.cpu_calibration.factors[DType::kF32]["matmul"] = 4;
  EXPECT_NEAR(over(expected), 1, 1e-9);
}

TEST(OperationsAnatomy, AccumulationRepeatsForwardAndBackwardOnly) {
  PlanRequest request = small_request();
  const OperationsAnatomy one = operations_anatomy(build_plan(request));
  request.batches.accumulation_steps = 3;
  const OperationsAnatomy three = operations_anatomy(build_plan(request));
  EXPECT_DOUBLE_EQ(three.segment(Segment::kForward).flops, 3 * one.segment(Segment::kForward).flops);
  EXPECT_DOUBLE_EQ(three.segment(Segment::kOptimizer).flops, one.segment(Segment::kOptimizer).flops);
  EXPECT_EQ(three.samples, 12);
  EXPECT_EQ(three.tokens, 384);
}

// Checks the cost of offloaded optimizer states. Transferring them early may add at most a twentieth to the transient bytes, and must make
// the step shorter. With updates in the backward pass, a step must take less than the longer of these times: 1.2 times the step without
// offloading, and 1.1 times the sum of the forward pass and the transfers.
TEST(OperationsAnatomy, StatesThatComeEarlyTakeTimeFromTheStepAndFewBytes) {
  for (const bool is_large : {false, true}) {
    for (const bool in_backward : {false, true}) {
      PlanRequest request = preset_request("bert-large-uncased", is_large ? 32 : 4, 512);
      request.device.kind = KernelDevice::kCuda;
      request.device.gpu = *find_gpu_target("h200");
      if (is_large) request.precision.activation_dtype = DType::kBF16;
      request.update.in_backward = in_backward;
      if (in_backward) request.update.optimizer.max_grad_norm = 0;
      const OperationsAnatomy without = operations_anatomy(build_plan(request));
      request.update.offload_states = true;
      const Plan early = build_plan(request);
      request.offload.early_states = false;
      const Plan late = build_plan(request);
      EXPECT_LE(early.programs.at(kTrainProgram).transient_bytes,
                late.programs.at(kTrainProgram).transient_bytes +
                    late.programs.at(kTrainProgram).transient_bytes / 20);
      // If updates run in the forward pass of the next step, the smallest states, at most 1/512 of all, may stay on the GPU.
      const bool is_at_use = early.programs.at(kTrainProgram).update_place->is_at_use;
      EXPECT_EQ(is_at_use, !is_large && !in_backward);
      EXPECT_LE(early.host_arena_bytes, late.host_arena_bytes);
      EXPECT_GE(early.host_arena_bytes,
                late.host_arena_bytes - (is_at_use ? late.host_arena_bytes / 512 : 0));
      const double early_ms = operations_anatomy(early).total().ms;
      EXPECT_LT(early_ms, operations_anatomy(late).total().ms);
      if (!in_backward) continue;
      const double link_ms =
          static_cast<double>(early.host_arena_bytes) / link_bytes_per_ms(request, LinkUse::kBothWays);
      EXPECT_LT(early_ms,
                std::max(1.2 * without.total().ms, 1.1 * (without.segment(Segment::kForward).ms + link_ms)));
    }
  }
}

TEST(OperationsAnatomy, ProductsOnTensorCoresShortenTheEstimateOnAGpu) {
  PlanRequest request = preset_request("bert-large-uncased", 4, 512);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const auto ms = [&](Fp32Products products) {
    request.precision.fp32_products = products;
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
  request.device.isa = CpuIsa::kAvx2;
  EXPECT_GT(operations_anatomy(build_plan(request)).total().ms, avx512);
  request.device.isa = CpuIsa::kAvx512;
  request.device.num_threads = 1;
  EXPECT_NEAR(operations_anatomy(build_plan(request)).total().ms, 2 * avx512, 0.1 * avx512);
}

}  // namespace
}  // namespace plimsoll
