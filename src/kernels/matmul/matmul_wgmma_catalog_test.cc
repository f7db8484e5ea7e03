// Tests which matrix products the kernel catalog assigns to Plimsoll's own kernel on compute capability 9.0, and the reasons that it gives
// for declining others.
#include <gtest/gtest.h>

#include "kernels/matmul/testing/asked_case.h"

namespace plimsoll {
namespace {

MatmulProblem layer(int64_t rows, int64_t columns, int64_t terms) {
  return {.m = rows,
          .n = columns,
          .k = terms,
          .trans_b = Transpose::kYes,
          .a = DType::kBF16,
          .b = DType::kBF16,
          .c = DType::kBF16,
          .bias = MatmulBias::kRow};
}

Problem on_card(const MatmulProblem& problem, int sm = 90) {
  return asked_of(problem, {.device = KernelDevice::kCuda, .sm = sm});
}

// Returns the reason why the catalog does not select Plimsoll's own kernel for a problem that cuBLASLt supports.
std::string reason(const MatmulProblem& problem, int sm = 90) {
  const Selection selection = select_kernel(on_card(problem, sm));
  EXPECT_EQ(selection.row->implementation, "matmul_cuda_cublaslt");
  EXPECT_FALSE(matmul_takes_own_product(problem, sm));
  for (const Refusal& refusal : selection.refused) {
    if (refusal.row->implementation == "matmul_cuda_wgmma") return refusal.reason;
  }
  return "";
}

TEST(MatmulWgmmaCatalog, HopperTakesLayersOfFewRows) {
  MatmulProblem problem = layer(32, 50257, 768);
  EXPECT_TRUE(matmul_takes_few_rows_cuda(problem, 90));
  EXPECT_FALSE(matmul_takes_few_rows_cuda(problem, 80));
  problem.m = 33;
  EXPECT_FALSE(matmul_takes_few_rows_cuda(problem, 90));
  problem.m = 1;
  problem.k = 784;
  EXPECT_FALSE(matmul_takes_few_rows_cuda(problem, 90));
  problem.k = 768;
  problem.c = DType::kF32;
  EXPECT_FALSE(matmul_takes_few_rows_cuda(problem, 90));
  problem.c = problem.a;
  problem.writes = MatmulWrites::kAddend;
  EXPECT_TRUE(matmul_takes_few_rows_cuda(problem, 90));
  problem.writes = MatmulWrites::kOverwriteOrAdd;
  EXPECT_FALSE(matmul_takes_few_rows_cuda(problem, 90));
}

TEST(MatmulWgmmaCatalog, HopperTakesLayersWithABias) {
  const Selection selection = select_kernel(on_card(layer(32768, 3072, 1024)));
  ASSERT_NE(selection.row, nullptr);
  EXPECT_EQ(selection.row->implementation, "matmul_cuda_wgmma");
  EXPECT_EQ(selection.scratch_bytes, kCublasLtWorkspaceBytes);
  EXPECT_TRUE(matmul_takes_own_product(layer(32768, 3072, 1024), 90));
  // The scratch memory must have the size of the workspace of cuBLASLt for any number of rows, because few rows use cuBLASLt.
  EXPECT_EQ(select_kernel(on_card(layer(64, 3072, 1024))).scratch_bytes, kCublasLtWorkspaceBytes);
  EXPECT_FALSE(matmul_takes_own_product(layer(64, 3072, 1024), 90));
  const Selection forced = select_kernel(on_card(layer(32768, 3072, 1024)), "matmul_cuda_cublaslt");
  EXPECT_EQ(forced.row->implementation, "matmul_cuda_cublaslt");
}

// A GPU with 132 multiprocessors computes 132 tiles at a time. 384 tiles nearly fill three rounds. 120 tiles (less than one round) and 192
// tiles (less than two) would leave too many multiprocessors idle, so cuBLASLt must be selected.
TEST(MatmulWgmmaCatalog, PartlyFilledRoundsUseTheLibrary) {
  EXPECT_TRUE(matmul_takes_own_product(layer(4096, 3072, 1024), 90));
  EXPECT_FALSE(matmul_takes_own_product(layer(1280, 3072, 1024), 90));
  EXPECT_FALSE(matmul_takes_own_product(layer(2048, 3072, 1024), 90));
}

// Tests which implementation of linear_add the catalog selects.
TEST(MatmulWgmmaCatalog, HopperTakesLayersWithAnAddend) {
  const auto asked = [](int64_t columns, int64_t terms, int sm) {
    return asked_of(LinearProblem{.rows = 32768, .columns = columns, .terms = terms, .sm = sm}, "linear_add");
  };
  const Selection selection = select_kernel(asked(1024, 4096, 90));
  EXPECT_EQ(selection.row->implementation, "linear_add_cuda_wgmma");
  EXPECT_EQ(selection.scratch_bytes, kCublasLtWorkspaceBytes);
  EXPECT_EQ(select_kernel(asked(384, 1536, 90)).row->implementation, "linear_add_cuda_cublaslt");
  EXPECT_EQ(select_kernel(asked(1024, 4096, 80)).row, nullptr);
  MatmulProblem problem = layer(32768, 1024, 4096);
  problem.bias = MatmulBias::kNone;
  problem.writes = MatmulWrites::kAddend;
  EXPECT_TRUE(matmul_takes_own_product(problem, 90));
  problem.m = 64;
  EXPECT_FALSE(matmul_takes_own_product(problem, 90));
  EXPECT_TRUE(matmul_as_linear(problem, 90).has_value());
  problem.bias = MatmulBias::kRow;
  EXPECT_FALSE(matmul_as_linear(problem, 90).has_value());
}

TEST(MatmulWgmmaCatalog, RefusalsSayWhy) {
  const MatmulProblem bert = layer(32768, 3072, 1024);
  EXPECT_EQ(reason(bert, 80), "needs the tensor cores of compute capability 9.0, but this GPU has 8.0");
  MatmulProblem other = bert;
  other.trans_b = Transpose::kNo;
  EXPECT_EQ(reason(other), "supports only products A B^T, as in a linear layer");
  other = bert;
  other.c = DType::kF32;
  EXPECT_EQ(reason(other), "needs matrices A, B and C of the same type");
  other = bert;
  other.writes = MatmulWrites::kOverwriteOrAdd;
  EXPECT_EQ(reason(other), "cannot add to its output");
  EXPECT_EQ(reason(layer(32768, 1152, 384)),
            "needs a number of columns and a depth (K) that are multiples of 256, and a depth of at least "
            "768, but they are 1152 and 384");
}

}  // namespace
}  // namespace plimsoll
