// Checks which problems the CUDA implementations of attention accept, and their reasons for declining others.
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
            "products of fp32 operands are not to be rounded to tf32");
  problem.target.fp32_products = Fp32Products::kTf32;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_tf32_wgmma");
  problem.target.sm = 80;
  EXPECT_EQ(chosen(problem), "attention_bwd_cuda_tf32");
  problem.target.sm = 75;
  EXPECT_EQ(reason_against(problem, "attention_bwd_cuda_tf32"),
            "compute capability 7.5 has no tf32; 8.0 has");
}

TEST(AttentionCatalog, RefusalsSayWhy) {
  const std::string_view mma = "attention_bwd_cuda_mma", tiled = "attention_bwd_cuda_tiled";
  EXPECT_EQ(reason_against(problem_of(DType::kBF16, 64, 75), mma),
            "compute capability 7.5 has no mma.sync of 16 x 8 x 16 and no bf16; 8.0 has");
  EXPECT_EQ(reason_against(problem_of(DType::kF16, 20, 90), mma),
            "a head size of 20 is not a multiple of 8 up to 128");
  const std::string_view wgmma = "attention_bwd_cuda_wgmma";
  EXPECT_EQ(reason_against(problem_of(DType::kF16, 64, 80), wgmma),
            "needs the wgmma of compute capability 9.0; this card has 8.0");
  EXPECT_EQ(reason_against(problem_of(DType::kBF16, 32, 90), wgmma),
            "takes head sizes from 33 to 128 in tiles of 64 columns, not 32");
  Problem short_texts = problem_of(DType::kBF16, 64, 90);
  std::get<AttentionDims>(short_texts.family).sequences = 16;
  EXPECT_EQ(reason_against(short_texts, wgmma),
            "sequences of 64 rows or less, on average, waste less of the small blocks of mma.sync");
  EXPECT_EQ(reason_against(problem_of(DType::kF32, 136, 90), tiled), "a head size of 136 is more than 128");
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
            "needs a head of keys and values for each of the 16 heads; there are 4");
  dims.kv_heads = 16;
  EXPECT_EQ(chosen(problem), wgmma);
  dims.window = 96;
  EXPECT_EQ(chosen(problem), next);
  EXPECT_EQ(reason_against(problem, wgmma), "computes no window, such as one of 96 rows");
  dims.window = 0;
  dims.head_dim = 128;
  EXPECT_EQ(chosen(problem), next);
  EXPECT_EQ(reason_against(problem, wgmma), "takes head sizes from 33 to 64 in tiles of 64 columns, not 128");
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
