#include "kernels/matmul/linear_gelu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/element_wise/gelu.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/testing/asked_case.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

// Compares the reference with the reference of the matrix product followed by that of bias_gelu. The latter two round the product before
// the bias is added. In bf16 this rounding is the largest term of the error bound, so bf16 is tested too.
void check_against_parts(DType dtype) {
  const LinearProblem problem{.rows = 9, .columns = 7, .terms = 33, .dtype = dtype};
  const std::string name = "linear_gelu/" + std::string(dtype_name(dtype));
  GuardedBuffer x(name + "/x", dtype, problem.rows * problem.terms);
  GuardedBuffer w(name + "/w", dtype, problem.columns * problem.terms);
  GuardedBuffer bias(name + "/bias", DType::kF32, problem.columns);
  GuardedBuffer sum(name + "/sum", dtype, problem.rows * problem.columns);
  GuardedBuffer parts(name + "/parts", dtype, problem.rows * problem.columns);
  GuardedBuffer y(name + "/y", DType::kF64, problem.rows * problem.columns);
  x.fill_normal();
  w.fill_normal(0.0, 0.4);
  bias.fill_uniform();
  linear_gelu_ref(problem, {.a = x.view(), .b = w.view(), .bias = bias.view(), .c = y.view()});
  matmul_ref({.m = problem.rows,
              .n = problem.columns,
              .k = problem.terms,
              .trans_b = Transpose::kYes,
              .a = dtype,
              .b = dtype,
              .c = dtype},
             {.a = x.view(), .b = w.view(), .bias = {}, .c = sum.view()});
  bias_gelu_fwd_ref(
      {.h = sum.view(), .b = bias.view(), .y = parts.view(), .T = problem.rows, .C = problem.columns});
  for (int64_t t = 0; t < problem.rows; ++t) {
    for (int64_t n = 0; n < problem.columns; ++n) {
      double product = 0.0, abs_sum = 0.0;
      for (int64_t k = 0; k < problem.terms; ++k) {
        const double term = x.load(t * problem.terms + k) * w.load(n * problem.terms + k);
        product += term;
        abs_sum += std::abs(term);
      }
      const int64_t i = t * problem.columns + n;
      EXPECT_NEAR(parts.load(i), y.load(i), linear_gelu_error_bound(problem, abs_sum, product, bias.load(n)));
      EXPECT_NEAR(y.load(i), gelu_exact(product + bias.load(n), Activation::kGelu), 1e-14 * (1.0 + abs_sum));
    }
  }
}

TEST(LinearGelu, TheReferenceMatchesThatOfItsParts) {
  check_against_parts(DType::kBF16);
  check_against_parts(DType::kF16);
}

Selection select(const LinearProblem& problem) {
  return select_kernel(asked_of(problem, "linear_gelu"));
}

std::string reason(const LinearProblem& problem) {
  const Selection selection = select(problem);
  EXPECT_EQ(selection.row, nullptr);
  return selection.refused.empty() ? "" : selection.refused.front().reason;
}

TEST(LinearGelu, HopperTakesWholeTilesOfColumns) {
  const LinearProblem bert{.rows = 32768, .columns = 4096, .terms = 1024, .sm = 90};
  ASSERT_NE(select(bert).row, nullptr);
  EXPECT_EQ(select(bert).row->implementation, "linear_gelu_cuda");
  EXPECT_EQ(select(bert).scratch_bytes, kCublasLtWorkspaceBytes);
  LinearProblem with_little = bert;
  with_little.workspace_bytes = 4096;
  EXPECT_EQ(select(with_little).scratch_bytes, 4096);
  LinearProblem few = bert;
  few.rows = 64;
  EXPECT_NE(select(few).row, nullptr);
  EXPECT_FALSE(linear_takes_own_product(few));
  LinearProblem other = bert;
  other.sm = 80;
  EXPECT_NE(reason(other).find("this GPU has 8.0"), std::string::npos);
  other = bert;
  other.terms = 384;
  EXPECT_NE(reason(other).find("4096 and 384"), std::string::npos);
  other = bert;
  other.columns = 1000;
  EXPECT_NE(reason(other).find("1000 and 1024"), std::string::npos);
  other = bert;
  other.dtype = DType::kF32;
  EXPECT_EQ(select(other).row, nullptr);
}

// A GPU with 132 multiprocessors computes 132 tiles at a time. 256 tiles nearly fill two rounds, so Plimsoll's own kernel must be chosen;
// 288 tiles would leave most multiprocessors idle in a third round, so the library must be chosen.
TEST(LinearGelu, HalfEmptyRoundsUseTheLibrary) {
  LinearProblem problem{.rows = 2048, .columns = 4096, .terms = 1024, .sm = 90};
  EXPECT_TRUE(linear_takes_own_product(problem));
  problem.rows = 2304;
  EXPECT_FALSE(linear_takes_own_product(problem));
}

}  // namespace
}  // namespace plimsoll
