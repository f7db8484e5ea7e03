// Plans for NVIDIA GPUs, made without one: every preset is planned for every card that has kernels for it,
// near its lower bound, on addresses that the card likes, and within what it has to beat.
#include <gtest/gtest.h>

#include <set>

#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

void expect_addresses(const Plan& plan) {
  const int64_t alignment = arena_alignment(KernelDevice::kCuda);
  for (const PersistentBuffer& buffer : plan.persistent)
    EXPECT_EQ(buffer.offset % alignment, 0) << buffer.name;
  for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    for (const TransientBuffer& buffer : (*program)->buffers) EXPECT_EQ(buffer.offset % alignment, 0);
    for (const OpPlan& op : (*program)->ops) {
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
          expect_near_lower_bound(*plan.train, text_of(point));
          expect_near_lower_bound(*plan.evaluate, text_of(point));
          expect_addresses(plan);
          EXPECT_EQ(plan.total_bytes(), plan.arena_bytes + plan.gpu_constant.total());
          EXPECT_GT(plan.gpu_constant.graph_bytes, 0);
          EXPECT_EQ(plan.host_bytes(), plan.host.total() + plan.staging_bytes());
          ++plans;
        }
      }
    }
  }
  EXPECT_GE(plans, 60);
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

// What the card shows as used, with a context of 527 MiB in it: Trainer's figures are 8556, 22194 and 30732.
TEST(PlanGpu, BertLargeHoldsWhatItHasToBeat) {
  GridPoint point = full_batch("bert-large-uncased", 4, 512);
  point.gpu = "h200";
  EXPECT_LE(plan_of(point).total_bytes(), 6600 * kMiB);
  point = full_batch("bert-large-uncased", 32, 512);
  point.gpu = "h200";
  EXPECT_LE(plan_of(point).total_bytes(), 20400 * kMiB);
  point.activations = DType::kBF16;
  EXPECT_LE(plan_of(point).total_bytes(), 13100 * kMiB);
  // Trainer with checkpointing: 7560.
  point.recompute = RecomputePolicy::kFull;
  EXPECT_LE(plan_of(point).total_bytes(), 6500 * kMiB);
}

// A weight or bias of a product has a 16-bit copy that lives beside it; embeddings and norms have none.
TEST(PlanGpu, ProductsReadCopiesOfTheirWeights) {
  GridPoint point = full_batch("bert-base-uncased", 4, 64);
  point.gpu = "h200";
  EXPECT_TRUE(plan_of(point).weight_copies.empty());
  point.activations = DType::kBF16;
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
    for (const Op& op : plan.train->graph.ops()) {
      if (op.def->name() != "global_norm") continue;
      for (ValueId id : op.inputs) {
        const Value& gradient = plan.train->graph.value(id);
        if (gradient.name.find("intermediate.dense.weight") == std::string::npos) continue;
        // What adds up over micro-batches does so in fp32.
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
  for (const OpPlan& op : plan.train->ops) EXPECT_EQ(op.kernel->backend, Backend::kCpu);
}

}  // namespace
}  // namespace plimsoll
