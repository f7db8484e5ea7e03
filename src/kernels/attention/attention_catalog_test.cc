// Tests which sizes, types and GPUs the CUDA implementations of attention accept, and the reasons that they give for declining others.
#include <gtest/gtest.h>

#include <string>

#include "kernels/attention/attention_catalog.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {
namespace {

Problem problem_of(DType dtype, int64_t head_dim, int sm) {
  return {.kernel = "attention_bwd",
          .dtype = dtype,
          .target = {.device = KernelDevice::kCuda, .sm = sm},
          .family = AttentionDims{
              .tokens = 1024, .sequences = 2, .longest = 512, .heads = 16, .head_dim = head_dim}};
}

std::string chosen(const Problem& problem) {
  const Selection selection = select_kernel(problem);
  return selection.row == nullptr ? "none" : std::string(selection.row->implementation);
}

std::string reason_against(const Problem& problem, std::string_view implementation) {
  for (const Refusal& refusal : select_kernel(problem).refused) {
    if (refusal.row->implementation == implementation) return refusal.reason;
  }
  return "not refused";
}

TEST(AttentionCatalog, TensorCoresTakeSupportedProblems) {
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 64, 90)), "attention_bwd_cuda_wgmma");
  EXPECT_EQ(chosen(problem_of(DType::kF16, 40, 90)), "attention_bwd_cuda_wgmma");
  EXPECT_EQ(chosen(problem_of(DType::kF16, 36, 90)), "attention_bwd_cuda_tiled");
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 32, 90)), "attention_bwd_cuda_mma");
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 128, 90)), "attention_bwd_cuda_wgmma");
  EXPECT_EQ(chosen(problem_of(DType::kF16, 80, 90)), "attention_bwd_cuda_wgmma");
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 128, 80)), "attention_bwd_cuda_mma");
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 64, 100)), "attention_bwd_cuda_mma");
  EXPECT_EQ(chosen(problem_of(DType::kF16, 8, 80)), "attention_bwd_cuda_mma");
  EXPECT_EQ(chosen(problem_of(DType::kF32, 64, 90)), "attention_bwd_cuda_tiled");
  EXPECT_EQ(chosen(problem_of(DType::kF16, 64, 75)), "attention_bwd_cuda_tiled");
  EXPECT_EQ(chosen(problem_of(DType::kBF16, 20, 90)), "attention_bwd_cuda_tiled");
  EXPECT_EQ(chosen(problem_of(DType::kF32, 136, 90)), "none");
  EXPECT_EQ(chosen(problem_of(DType::kF32, 128, 75)), "none");
}

TEST(AttentionCatalog, Tf32IsUsedOnlyIfAllowed) {
  Problem problem = problem_of(DType::kF32, 64, 90);
  EXPECT_EQ(reason_against(problem, "attention_bwd_cuda_tf32"),
            "computes in tf32, which the settings do not allow for fp32 operands");
  problem.target.fp32_products = Fp32Products::kTf32;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_tf32_wgmma");
  problem.target.sm = 80;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_tf32");
  problem.target.sm = 75;
  EXPECT_EQ(reason_against(problem, "attention_bwd_cuda_tf32"),
            "needs tf32, which GPUs have from compute capability 8.0 on; this GPU has 7.5");
}

TEST(AttentionCatalog, RefusalsSayWhy) {
  const std::string_view mma = "attention_bwd_cuda_mma", tiled = "attention_bwd_cuda_tiled";
  EXPECT_EQ(reason_against(problem_of(DType::kBF16, 64, 75), mma),
            "needs mma.sync of 16 x 8 x 16, which GPUs have from compute capability 8.0 on; this GPU has 7.5 "
            "and does not support bf16");
  EXPECT_EQ(reason_against(problem_of(DType::kF16, 20, 90), mma),
            "the head size must be a multiple of 8 and at most 128, but is 20");
  const std::string_view wgmma = "attention_bwd_cuda_wgmma";
  EXPECT_EQ(reason_against(problem_of(DType::kF16, 64, 80), wgmma),
            "needs the wgmma instructions of compute capability 9.0, but this GPU has 8.0");
  EXPECT_EQ(reason_against(problem_of(DType::kBF16, 32, 90), wgmma),
            "supports head sizes from 33 to 128, because its tiles have 64 columns, but the head size is 32");
  Problem short_texts = problem_of(DType::kBF16, 64, 90);
  std::get<AttentionDims>(short_texts.family).sequences = 16;
  EXPECT_EQ(reason_against(short_texts, wgmma),
            "the kernel with mma.sync is faster: sequences have at most 64 rows on average, and its small "
            "tiles leave fewer rows unused");
  EXPECT_EQ(reason_against(problem_of(DType::kF32, 136, 90), tiled),
            "the head size may be at most 128, but is 136");
  EXPECT_NE(reason_against(problem_of(DType::kF32, 128, 75), tiled).find("64 KiB of shared memory"),
            std::string::npos);
}

TEST(AttentionCatalog, WarpgroupsOfTf32DeclineWideHeadsSharedHeadsAndWindows) {
  Problem problem = problem_of(DType::kF32, 64, 90);
  problem.target.fp32_products = Fp32Products::kTf32;
  const std::string_view wgmma = "attention_bwd_cuda_tf32_wgmma", next = "attention_bwd_cuda_tf32";
  AttentionDims& dims = std::get<AttentionDims>(problem.family);
  dims.kv_heads = 4;
  EXPECT_EQ(chosen(problem), next);
  EXPECT_EQ(reason_against(problem, wgmma),
            "needs one head of keys and values for each of the 16 query heads, but there are 4");
  dims.kv_heads = 16;
  EXPECT_EQ(chosen(problem), wgmma);
  dims.window = 96;
  EXPECT_EQ(chosen(problem), next);
  EXPECT_EQ(reason_against(problem, wgmma),
            "does not support a sliding window, but attention has one of 96 rows");
  dims.window = 0;
  dims.head_dim = 128;
  EXPECT_EQ(chosen(problem), next);
  EXPECT_EQ(reason_against(problem, wgmma),
            "supports head sizes from 33 to 64, because its tiles have 64 columns, but the head size is 128");
}

TEST(AttentionCatalog, WarpgroupsOf16BitsTakeSharedHeadsAndWindows) {
  Problem problem = problem_of(DType::kBF16, 64, 90);
  AttentionDims& dims = std::get<AttentionDims>(problem.family);
  dims.kv_heads = 4;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_wgmma");
  dims.window = 96;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_wgmma");
}

TEST(AttentionCatalog, ScratchIsDeltaAndOneBitPerPair) {
  const Problem problem = problem_of(DType::kBF16, 64, 90);
  EXPECT_EQ(select_kernel(problem).scratch_bytes, 1024 * 16 * 4 + 1024 * 16 * 512 / 8);
  EXPECT_EQ(select_kernel(problem, "attention_bwd_cuda_tiled").scratch_bytes, 1024 * 16 * 4);
  EXPECT_EQ(attention_cuda_keep_bytes({4096, 1, kAttentionKeepLongest + 1, 16, 64}), 0);
}

}  // namespace
}  // namespace plimsoll
