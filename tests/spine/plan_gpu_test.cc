// Tests plans for NVIDIA GPUs. No GPU is needed. Every known model (preset) is planned for every card that has
// kernels. The plans must be close to their lower bound, use addresses with the alignment that the card needs,
// and need less memory than other implementations.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "graph/ops/ops.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

void expect_addresses(const Plan& plan) {
  const int64_t alignment = arena_alignment(KernelDevice::kCuda);
  for (const PersistentBuffer& buffer : plan.persistent)
    EXPECT_EQ(buffer.offset % alignment, 0) << buffer.name;
  for (const ProgramPlan& program : plan.programs) {
    for (const TransientBuffer& buffer : program.buffers) EXPECT_EQ(buffer.offset % alignment, 0);
    for (const OpPlan& op : program.ops) {
      EXPECT_EQ(op.kernel->backend, Backend::kCuda) << op.kernel->implementation;
      EXPECT_EQ(op.scratch_bytes > 0 ? op.scratch_offset % alignment : 0, 0);
    }
  }
}

TEST(PlanGpu, EveryPresetIsPlannedNearItsLowerBound) {
  int plans = 0;
  for (const std::string& preset : preset_names()) {
    for (const char* gpu : {"h200", "a10g", "5090"}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const int64_t accumulation : {1, 4}) {
          GridPoint point = full_batch(preset, 8, 128);
          point.gpu = gpu;
          point.activations = dtype;
          point.accumulation = accumulation;
          SCOPED_TRACE(text_of(point));
          const Plan plan = plan_of(point);
          expect_near_lower_bound(plan.programs.at(kTrainProgram), text_of(point));
          expect_near_lower_bound(plan.programs.at(kEvaluateProgram), text_of(point));
          expect_addresses(plan);
          EXPECT_EQ(plan.total_bytes(), plan.arena_bytes + plan.gpu_constant.total());
          EXPECT_GT(plan.gpu_constant.graph_bytes(), 0);
          EXPECT_EQ(plan.host_bytes(), plan.host.total() + plan.staging_bytes());
          ++plans;
        }
      }
    }
  }
  EXPECT_GE(plans, 60);
}

// To find a faulty pass, a user can stop after each pass. With any options and after any number of passes,
// every op of the plan must have a kernel and every buffer an address.
TEST(PlanGpu, EveryPrefixOfThePassesIsPlanned) {
  int plans = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool offload : {false, true}) {
      for (const bool adapters : {false, true}) {
        GridPoint point = full_batch("MiniLM-L6-H384-uncased", 4, 64);
        point.gpu = "h200";
        point.activations = dtype;
        point.accumulation = offload ? 2 : 1;
        PlanRequest request = request_of(point);
        request.update.offload_states = offload;
        request.offload.activations = offload;
        request.offload.least_bytes = 1;
        request.precision.copies_at_use = dtype == DType::kF16;
        if (adapters) request.model.lora = LoraConfig{.base_weights = BaseWeights::kNf4};
        request.passes.stop_after = kStopAfterNone;
        EXPECT_NO_THROW(expect_addresses(build_plan(request))) << text_of(point);
        for (const PassInfo& pass : all_passes()) {
          SCOPED_TRACE(text_of(point) + " stopped after " + std::string(pass.name));
          request.passes.stop_after = pass.name;
          EXPECT_NO_THROW(expect_addresses(build_plan(request)));
          ++plans;
        }
      }
    }
  }
  EXPECT_GE(plans, 150);
}

// In a 16-bit evaluation on a Hopper GPU, the first product of each feed-forward layer must be fused with the
// following GELU into one op.
TEST(PlanGpu, EvaluationOnHopperTakesProductAndGeluAtOnce) {
  const auto fused = [](const char* preset, const char* gpu, DType activations) {
    GridPoint point = full_batch(preset, 8, 128);
    point.gpu = gpu;
    point.activations = activations;
    const Plan plan = plan_of(point);
    const auto is_fused = [](const Op& op) { return op.def == &linear_gelu_op(); };
    EXPECT_EQ(std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), is_fused), 0);
    return std::ranges::count_if(plan.programs.at(kEvaluateProgram).graph.ops(), is_fused);
  };
  EXPECT_EQ(fused("bert-large-uncased", "h200", DType::kBF16), 24);
  EXPECT_EQ(fused("bert-base-uncased", "h200", DType::kF16), 12);
  EXPECT_EQ(fused("bert-large-uncased", "h200", DType::kF32), 0);
  EXPECT_EQ(fused("bert-large-uncased", "a10g", DType::kBF16), 0);
  // This model has 384 columns, which is not a multiple of the tile of the fused kernel, so the kernel cannot
  // be used.
  EXPECT_EQ(fused("MiniLM-L6-H384-uncased", "h200", DType::kBF16), 0);
}

// In a 16-bit evaluation on a Hopper GPU, the kernels of matrix products must also add the residual, and the
// last attention must compute only the first token of each sequence. Neither may be used in training.
TEST(PlanGpu, EvaluationOnHopperAddsResidualsInProducts) {
  const auto count = [](const char* gpu, DType activations, const OpSchema& def) {
    GridPoint point = full_batch("bert-large-uncased", 8, 128);
    point.gpu = gpu;
    point.activations = activations;
    const Plan plan = plan_of(point);
    const auto is_it = [&def](const Op& op) { return op.def == &def; };
    EXPECT_EQ(std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), is_it), 0);
    return std::ranges::count_if(plan.programs.at(kEvaluateProgram).graph.ops(), is_it);
  };
  EXPECT_EQ(count("h200", DType::kBF16, linear_add_op()), 48);
  EXPECT_EQ(count("h200", DType::kF16, linear_add_op()), 48);
  EXPECT_EQ(count("h200", DType::kF32, linear_add_op()), 0);
  EXPECT_EQ(count("a10g", DType::kBF16, linear_add_op()), 0);
  EXPECT_EQ(count("h200", DType::kBF16, first_token_attention_op()), 1);
  EXPECT_EQ(count("h200", DType::kF32, first_token_attention_op()), 0);
  EXPECT_EQ(count("a10g", DType::kBF16, first_token_attention_op()), 0);
}

// If all activations stay on the card, the run captures CUDA graphs, which need memory themselves. If the
// memory limit has no room for these graphs, activations must be offloaded instead.
TEST(PlanGpu, ActivationsLeaveWhereTheLimitHasNoRoomForPrograms) {
  GridPoint point = full_batch("bert-large-uncased", 2, 512);
  point.gpu = "h200";
  point.offload_activations = true;
  PlanRequest request = request_of(point);
  const Plan stays = build_plan(request);
  request.offload.saved_in_headroom = false;
  const Plan moves = build_plan(request);
  EXPECT_EQ(stays.programs.at(kTrainProgram).host.transient_bytes, 0);
  EXPECT_GT(moves.programs.at(kTrainProgram).host.transient_bytes, 0);
  ASSERT_GT(stays.total_bytes(), moves.total_bytes());
  request.offload.saved_in_headroom = true;
  request.memory_limit_bytes = moves.total_bytes();
  const Plan limited = build_plan(request);
  EXPECT_TRUE(limited.fits());
  EXPECT_EQ(limited.total_bytes(), moves.total_bytes());
}

// In an evaluation on a Hopper GPU, each norm must be fused with the matrix product before it if the product
// has enough tiles of rows to keep all multiprocessors busy. The last layer is an exception, because it
// computes only the first token of each sequence.
TEST(PlanGpu, EvaluationOnHopperTakesProductAndNormAtOnce) {
  const auto count = [](const char* preset, int64_t sequences, const char* gpu, DType activations,
                        const OpSchema& def) {
    GridPoint point = full_batch(preset, sequences, 512);
    point.gpu = gpu;
    point.activations = activations;
    const Plan plan = plan_of(point);
    const auto is_it = [&def](const Op& op) { return op.def == &def; };
    EXPECT_EQ(std::ranges::count_if(plan.programs.at(kTrainProgram).graph.ops(), is_it), 0);
    return std::ranges::count_if(plan.programs.at(kEvaluateProgram).graph.ops(), is_it);
  };
  const char *const large = "bert-large-uncased", *const base = "bert-base-uncased";
  EXPECT_EQ(count(large, 64, "h200", DType::kBF16, linear_norm_op()), 46);
  EXPECT_EQ(count(large, 64, "h200", DType::kBF16, linear_add_op()), 2);
  EXPECT_EQ(count(large, 8, "h100", DType::kF16, linear_norm_op()), 46);
  EXPECT_EQ(count(large, 9, "h200", DType::kBF16, linear_norm_op()), 0);
  EXPECT_EQ(count(large, 64, "h200", DType::kF32, linear_norm_op()), 0);
  EXPECT_EQ(count(large, 64, "a10g", DType::kBF16, linear_norm_op()), 0);
  EXPECT_EQ(count(base, 64, "h200", DType::kBF16, linear_norm_op()), 22);
}

// Products whose sizes are multiples of the Hopper kernel's tiles must use this kernel. In training these are
// the pooler and all linear layers. In an evaluation these are the pooler and the query, key and value
// products, while the other linear layers use kernels that also add the residual or compute GELU, and the last
// attention computes only the first tokens.
TEST(PlanGpu, HopperTakesLinearLayers) {
  const auto count = [](const char* preset, const char* gpu, DType activations, bool trains,
                        const char* implementation = "matmul_cuda_wgmma") {
    GridPoint point = full_batch(preset, 8, 128);
    point.gpu = gpu;
    point.activations = activations;
    const Plan plan = plan_of(point);
    const auto is_it = [implementation](const OpPlan& op) {
      return op.kernel != nullptr && op.kernel->implementation == implementation;
    };
    return std::ranges::count_if(
        trains ? plan.programs.at(kTrainProgram).ops : plan.programs.at(kEvaluateProgram).ops, is_it);
  };
  EXPECT_EQ(count("bert-large-uncased", "h200", DType::kBF16, true), 97);
  EXPECT_EQ(count("bert-large-uncased", "h200", DType::kBF16, false), 24);
  EXPECT_EQ(count("bert-large-uncased", "h200", DType::kBF16, false, "linear_add_cuda_wgmma"), 48);
  EXPECT_EQ(count("bert-base-uncased", "h200", DType::kF16, true), 49);
  EXPECT_EQ(count("bert-large-uncased", "h200", DType::kF32, true), 0);
  EXPECT_EQ(count("bert-large-uncased", "a10g", DType::kBF16, true), 0);
  EXPECT_EQ(count("MiniLM-L6-H384-uncased", "h200", DType::kBF16, true), 0);
  // The matrices of this model have 384 columns, which do not fit the tiles of the Hopper kernel, so cuBLASLt
  // multiplies them.
  EXPECT_EQ(count("MiniLM-L6-H384-uncased", "h200", DType::kBF16, false, "linear_add_cuda_cublaslt"), 12);
}

TEST(PlanGpu, ACardWithoutBf16HasNoKernelForIt) {
  GridPoint point = full_batch("bert-base-uncased", 4, 64);
  point.gpu = "t4";
  EXPECT_NO_THROW(plan_of(point));
  point.activations = DType::kBF16;
  try {
    plan_of(point);
    FAIL() << "bf16 was planned on a card that has none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("8.0"), std::string::npos) << error.what();
  }
}

// The expected limits are the memory that the driver must report as used on the card, including a CUDA context
// of 527 MiB. Hugging Face's Trainer needs 8556, 22194 and 30732 MiB for the same runs.
TEST(PlanGpu, BertLargeHoldsWhatItHasToBeat) {
  GridPoint point = full_batch("bert-large-uncased", 4, 512);
  point.gpu = "h200";
  EXPECT_LE(plan_of(point).total_bytes(), 6600 * kMiB);
  point = full_batch("bert-large-uncased", 32, 512);
  point.gpu = "h200";
  EXPECT_LE(plan_of(point).total_bytes(), 20400 * kMiB);
  point.activations = DType::kBF16;
  const int64_t split = plan_of(point).total_bytes();
  EXPECT_LE(split, 13100 * kMiB);
  // Compared to fp32 weights with a 16-bit copy, weights that are split into two halves must need two bytes
  // less per parameter of a matrix product.
  point.master_weights = MasterWeights::kWhole;
  EXPECT_GE(plan_of(point).total_bytes() - split, 2 * 300000000);
  point.master_weights = MasterWeights::kAuto;
  // Hugging Face's Trainer with gradient checkpointing needs 7560 MiB for the same run.
  point.recompute = RecomputePolicy::kFull;
  EXPECT_LE(plan_of(point).total_bytes(), 6500 * kMiB);
}

// If the optimizer states are in host memory, the host must need the bytes of these states (8 per parameter for AdamW), and the card must
// need as many less. Both memory layouts must be close to their lower bounds.
TEST(PlanGpu, OptimizerStatesGoToTheHost) {
  int plans = 0;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8Bit, OptimizerKind::kLion}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t accumulation : {1, 4}) {
        GridPoint point = full_batch("bert-large-uncased", 1, 512);
        point.gpu = "h200";
        point.optimizer = kind;
        point.activations = dtype;
        point.accumulation = accumulation;
        SCOPED_TRACE(fmt::format("{}, {}", text_of(point), optimizer_row(kind).name));
        const Plan without = plan_of(point);
        point.offload_optimizer = true;
        const Plan plan = plan_of(point);
        expect_near_lower_bound(plan.programs.at(kTrainProgram), text_of(point));
        expect_addresses(plan);
        EXPECT_EQ(plan.host_arena_bytes, plan.host_lower_bound_bytes);
        EXPECT_EQ(plan.host_bytes(), plan.host.total() + plan.staging_bytes() + plan.host_arena_bytes);
        EXPECT_EQ(plan.total_bytes(), plan.arena_bytes + plan.gpu_constant.total());
        // The bytes of optimizer states in host memory must be those that the plan without offloading has on the GPU,
        // up to rounding of sizes. If updates are deferred to the next forward pass, the GPU additionally stores the
        // clip coefficient, or a flag that states whether the update is skipped, until then.
        int64_t on_card = 0;
        int64_t held = 0;
        int64_t small_states = 0;
        for (const PersistentBuffer& buffer : plan.persistent) {
          if (buffer.space == Space::kDevice) on_card += buffer.bytes;
          if (buffer.storage == Storage::kOutput && !without.persistent_by_name.contains(buffer.name))
            held += buffer.bytes;
          if (buffer.storage != Storage::kOptimizerState) continue;
          const bool is_scale = buffer.name.starts_with("loss_scale");
          if (buffer.space != Space::kDevice) {
            EXPECT_FALSE(is_scale) << buffer.name;
          } else if (!is_scale) {
            EXPECT_TRUE(plan.programs.at(kTrainProgram).update_place &&
                        plan.programs.at(kTrainProgram).update_place->is_at_use)
                << buffer.name;
            EXPECT_LE(buffer.bytes, 64 << 10) << buffer.name << " is not small";
            small_states += buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype);
          }
        }
        EXPECT_LE(512 * small_states, small_states + plan.host_persistent_bytes) << "of all";
        EXPECT_EQ(on_card, plan.persistent_bytes);
        EXPECT_LE(held, 256);
        EXPECT_EQ(on_card - held + plan.host_persistent_bytes, without.persistent_bytes);
        EXPECT_LT(plan.total_bytes(), without.total_bytes());
        ++plans;
      }
    }
  }
  EXPECT_EQ(plans, 18);
}

TEST(PlanGpu, BertLargeIsSmallestWithItsStatesOnTheHost) {
  GridPoint point = full_batch("bert-large-uncased", 1, 512);
  point.gpu = "h200";
  point.recompute = RecomputePolicy::kFull;
  point.optimizer_in_backward = true;
  EXPECT_GE(plan_of(point).total_bytes(), 4500 * kMiB);
  point.offload_optimizer = true;
  EXPECT_LE(plan_of(point).total_bytes(), 2600 * kMiB);
}

// BERT-large with bf16 weights and all options that save memory must fit into 1300 MiB: 639 MiB for weights,
// and the memory for the backward pass of one layer and for updates. The largest table has 31 million
// elements, but its optimizer states are on the GPU for only 2 million elements at a time.
TEST(PlanGpu, BertLargeInBf16AloneFitsIntoThirteenHundredMiB) {
  GridPoint point = full_batch("bert-large-uncased", 1, 512);
  point.gpu = "h200";
  point.activations = DType::kBF16;
  point.recompute = RecomputePolicy::kFull;
  point.optimizer_in_backward = point.offload_optimizer = point.offload_activations = true;
  PlanRequest request = request_of(point);
  request.precision.dtype = DType::kBF16;
  const Plan plan = build_plan(request);
  EXPECT_LE(plan.total_bytes(), 1280 * kMiB);
  expect_near_lower_bound(plan.programs.at(kTrainProgram), text_of(point));
  expect_addresses(plan);
  // The number of padded batch sizes (buckets) of an evaluation depends on the data. The plan must fit even with the
  // largest number of captured graphs.
  request.captured_buckets.evaluate = kMaxCapturedBuckets;
  EXPECT_LE(build_plan(request).total_bytes(), 1300 * kMiB);
}

TEST(PlanGpu, Fp16IsPlannedWithItsScaleAndCopies) {
  GridPoint point = full_batch("bert-large-uncased", 4, 512);
  point.gpu = "h200";
  point.activations = DType::kF16;
  const Plan plan = plan_of(point);
  EXPECT_LE(plan.total_bytes(), 6250 * kMiB);
  EXPECT_TRUE(plan.scales_loss());
  EXPECT_TRUE(plan.split_weights.empty());
  EXPECT_GT(plan.weight_copies.size(), 100u);
  for (const WeightCopy& pair : plan.weight_copies) EXPECT_EQ(plan.buffer(pair.copy).type.dtype, DType::kF16);
  EXPECT_EQ(plan.buffer("loss_scale").storage, Storage::kOptimizerState);
  EXPECT_EQ(plan.buffer("loss_scale.good_steps").type.dtype, DType::kI32);
  EXPECT_EQ(plan.buffer("skipped_steps").storage, Storage::kOutput);
  for (const OpPlan& op : plan.programs.at(kTrainProgram).ops) EXPECT_EQ(op.kernel->backend, Backend::kCuda);
  // The T4 does not support bf16, but fp16 must work on it.
  point.gpu = "t4";
  EXPECT_NO_THROW(plan_of(point));
}

// Tests --bf16_full_eval and --fp16_full_eval.
TEST(PlanGpu, EvaluationInSixteenBitsHoldsTwoBytesAParameter) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    PlanRequest request;
    request.model.config = *find_preset("bert-large-uncased");
    request.precision.dtype = dtype;
    request.precision.activation_dtype = dtype;
    request.train = false;
    request.batches.evaluate = {.tokens = 64 * 512, .sequences = 64, .longest = 512};
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = *find_gpu_target("h200");
    const Plan plan = build_plan(request);
    int64_t bytes = 0;
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kWeight)
        bytes += buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype);
      EXPECT_NE(buffer.storage, Storage::kOptimizerState) << buffer.name;
    }
    EXPECT_EQ(bytes, 2 * plan.num_parameters());
    for (const OpPlan& op : plan.programs.at(kEvaluateProgram).ops)
      EXPECT_EQ(op.kernel->backend, Backend::kCuda);
  }
}

// With 16-bit activations, each weight and bias of a matrix product must have a 16-bit copy in addition to its
// fp32 tensor. Embeddings and norms have no copy.
TEST(PlanGpu, ProductsReadCopiesOfTheirWeights) {
  GridPoint point = full_batch("bert-base-uncased", 4, 64);
  point.gpu = "h200";
  EXPECT_TRUE(plan_of(point).weight_copies.empty());
  point.activations = DType::kBF16;
  point.master_weights = MasterWeights::kWhole;
  for (const int64_t accumulation : {1, 3}) {
    point.accumulation = accumulation;
    const Plan plan = plan_of(point);
    std::set<std::string> copied;
    for (const WeightCopy& pair : plan.weight_copies) {
      EXPECT_EQ(plan.buffer(pair.copy).type.dtype, DType::kBF16) << pair.copy;
      EXPECT_EQ(plan.buffer(pair.weight).type.dtype, DType::kF32) << pair.weight;
      EXPECT_EQ(plan.buffer(pair.copy).storage, Storage::kWeight);
      copied.insert(pair.weight);
    }
    EXPECT_TRUE(copied.contains("encoder.layer.0.attention.qkv.weight"));
    EXPECT_TRUE(copied.contains("encoder.layer.0.attention.qkv.bias"));
    EXPECT_FALSE(copied.contains("embeddings.word_embeddings.weight"));
    EXPECT_FALSE(copied.contains("embeddings.LayerNorm.weight"));
    int gradients = 0;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      if (op.def->name() != "global_norm") continue;
      for (ValueId id : gradients_of_norm(op)) {
        const Value& gradient = plan.programs.at(kTrainProgram).graph.value(id);
        if (gradient.name.find("intermediate.dense.weight") == std::string::npos) continue;
        // Gradients that are accumulated over micro-batches are stored in fp32.
        EXPECT_EQ(gradient.type.dtype, accumulation > 1 ? DType::kF32 : DType::kBF16) << gradient.name;
        ++gradients;
      }
    }
    EXPECT_EQ(gradients, 12);
  }
}

TEST(PlanGpu, ACpuRoundsWeightsOnTheirWay) {
  GridPoint point = full_batch("bert-base-uncased", 4, 64);
  point.activations = DType::kBF16;
  const Plan plan = plan_of(point);
  EXPECT_TRUE(plan.weight_copies.empty());
  EXPECT_EQ(plan.gpu_constant.total(), 0);
  for (const OpPlan& op : plan.programs.at(kTrainProgram).ops) EXPECT_EQ(op.kernel->backend, Backend::kCpu);
}

}  // namespace
}  // namespace plimsoll
