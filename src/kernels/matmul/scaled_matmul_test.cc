// Tests matrix products of fp8 operands: the reference, and which products the kernel catalog assigns to cuBLASLt.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/catalog/catalog.h"
#include "kernels/matmul/matmul.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

TEST(ScaledMatmul, TheReferenceMultipliesCodesAndScales) {
  for (const DType a_type : {DType::kE4M3, DType::kE5M2}) {
    const MatmulProblem problem{.m = 5,
                                .n = 7,
                                .k = 19,
                                .trans_b = Transpose::kYes,
                                .a = a_type,
                                .b = DType::kE4M3,
                                .bias = MatmulBias::kRow,
                                .writes = MatmulWrites::kOverwriteOrAdd};
    GuardedBuffer a("scaled_matmul/a", problem.a, 5 * 19), b("scaled_matmul/b", problem.b, 7 * 19);
    GuardedBuffer scales("scaled_matmul/scales", DType::kF32, 2), bias("scaled_matmul/bias", DType::kF32, 7);
    GuardedBuffer c("scaled_matmul/c", DType::kF64, 5 * 7);
    a.fill_normal();
    b.fill_normal();
    bias.fill_uniform();
    scales.assign(std::vector<double>{0.125, 3.0});
    MatmulArgs args{.a = a.view(),
                    .b = b.view(),
                    .bias = bias.view(),
                    .c = c.view(),
                    .a_scale = scales.view(),
                    .b_scale = scales.view_from(1)};
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      args.accumulate = accumulate;
      matmul_ref(problem, args);
      const double times = accumulate == Accumulate::kAdd ? 2.0 : 1.0;
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 7; ++j) {
          double sum = bias.load(j);
          for (int64_t l = 0; l < 19; ++l) sum += 0.125 * a.load(i * 19 + l) * 3.0 * b.load(j * 19 + l);
          EXPECT_NEAR(c.load(i * 7 + j), times * sum, 1e-13);
        }
      }
    }
  }
}

// Returns the reason that the catalog gives for not assigning a product to cuBLASLt, or "".
std::string refusal(int sm, const MatmulProblem& product) {
  return kernel_support(*find_kernel_row("scaled_matmul_cuda_cublaslt"),
                        {.kernel = "scaled_matmul",
                         .dtype = product.c,
                         .target = {.device = KernelDevice::kCuda, .sm = sm},
                         .family = product})
      .reason;
}

TEST(ScaledMatmul, TheLibraryIsAskedForWhatTensorCoresMultiply) {
  const MatmulProblem product{.m = 64,
                              .n = 48,
                              .k = 80,
                              .trans_b = Transpose::kYes,
                              .a = DType::kE5M2,
                              .b = DType::kE4M3,
                              .c = DType::kBF16};
  EXPECT_EQ(refusal(90, product), "");
  EXPECT_EQ(refusal(89, product), "");
  EXPECT_EQ(refusal(80, product), "fp8 needs compute capability 8.9, but this GPU has 8.0");
  MatmulProblem other = product;
  other.b = DType::kE5M2;
  EXPECT_EQ(refusal(90, other), "supports at most one operand of type e5m2");
  for (int64_t MatmulProblem::*size : {&MatmulProblem::m, &MatmulProblem::n, &MatmulProblem::k}) {
    other = product;
    other.*size += 8;
    EXPECT_NE(refusal(90, other).find("that are multiples of 16, but they are "), std::string::npos);
  }
}

// Fast accumulation must be used only if both operands are e4m3, as in the forward pass.
TEST(ScaledMatmul, FastAccumulationIsForTheForwardPass) {
  EXPECT_TRUE(uses_fast_accumulation({.a = DType::kE4M3, .b = DType::kE4M3}));
  EXPECT_FALSE(uses_fast_accumulation({.a = DType::kE5M2, .b = DType::kE4M3}));
  EXPECT_FALSE(uses_fast_accumulation({.a = DType::kBF16, .b = DType::kBF16}));
}

}  // namespace
}  // namespace plimsoll
