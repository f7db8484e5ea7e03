// Tests which matrix products the implementation with three TF32 products accepts, the reasons that it gives for declining others, and its
// scratch memory.
#include <gtest/gtest.h>

#include <string>

#include "kernels/matmul/testing/asked_case.h"

namespace plimsoll {
namespace {

Problem problem_of(int64_t m, int64_t n, int64_t k, int sm = 90, DType dtype = DType::kF32) {
  return asked_of(MatmulProblem{.m = m, .n = n, .k = k, .a = dtype, .b = dtype, .c = dtype},
                  {.device = KernelDevice::kCuda, .sm = sm, .fp32_products = Fp32Products::kTf32x3});
}

std::string reason(const Problem& problem) {
  for (const Refusal& refusal : select_kernel(problem).refused) {
    if (refusal.row->implementation == "matmul_cuda_tf32x3") return refusal.reason;
  }
  return "not refused";
}

TEST(Tf32x3Catalog, TakesLargeProductsIfRequested) {
  const Selection selection = select_kernel(problem_of(2048, 1024, 4096));
  ASSERT_NE(selection.row, nullptr);
  EXPECT_EQ(selection.row->implementation, "matmul_cuda_tf32x3");
  EXPECT_EQ(selection.scratch_bytes, 12 * (2048 + 1024) * 4096 + kCublasLtWorkspaceBytes);
  // The bytes of each split operand must be rounded up to a multiple of 256.
  const Selection odd = select_kernel(problem_of(65, 67, 71));
  EXPECT_EQ(odd.scratch_bytes,
            (12 * 65 * 71 + 255) / 256 * 256 + (12 * 67 * 71 + 255) / 256 * 256 + kCublasLtWorkspaceBytes);
}

// The scratch memory must contain the split operands and, in addition, the workspace of cuBLASLt, whatever size is set for it.
TEST(Tf32x3Catalog, ScratchIncludesTheChosenWorkspace) {
  for (const int64_t bytes : {int64_t{0}, int64_t{4} << 20}) {
    Problem problem = problem_of(2048, 1024, 4096);
    std::get<MatmulProblem>(problem.family).workspace_bytes = bytes;
    EXPECT_EQ(select_kernel(problem).scratch_bytes, 12 * (2048 + 1024) * 4096 + bytes);
  }
}

TEST(Tf32x3Catalog, RefusalsSayWhy) {
  Problem not_asked = problem_of(2048, 1024, 4096);
  not_asked.target.fp32_products = Fp32Products::kF32;
  EXPECT_EQ(reason(not_asked), "is used only for fp32 operands with --matmul_precision tf32x3");
  EXPECT_EQ(reason(problem_of(2048, 1024, 4096, 75)),
            "needs tf32, which GPUs have from compute capability 8.0 on; this GPU has 7.5");
  EXPECT_EQ(reason(problem_of(2048, 2, 1024)),
            "splitting operands into TF32 parts is only faster from 64 rows, columns and depth (K) on");
  EXPECT_EQ(reason(problem_of(64, 64, 5'000'000)),
            "can only split operands with a depth (K) of at most 4194240 and fewer than 2^32 elements");
  EXPECT_EQ(select_kernel(problem_of(2048, 2, 1024)).row->implementation, "matmul_cuda_cublaslt");
  EXPECT_EQ(select_kernel(problem_of(2048, 1024, 1024, 90, DType::kBF16)).row->implementation,
            "matmul_cuda_cublaslt");
}

}  // namespace
}  // namespace plimsoll
