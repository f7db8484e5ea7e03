#include "kernels/matmul/linear_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/testing/asked_case.h"
#include "kernels/matmul/testing/linear_norm_case.h"
#include "tests/support/compare.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;
using test::LinearNormCase;

// Compares the reference with the references of the matrix product and of the norm, run one after the other, which round the sum s to
// `dtype` before it is normalized.
void check_against_parts(DType dtype, double mean, bool has_beta = true) {
  const LinearProblem problem{.rows = 9, .columns = 7, .terms = 33, .dtype = dtype};
  LinearNormCase layer(problem, DType::kF32, "linear_norm/" + std::string(dtype_name(dtype)));
  layer.fill(mean);
  layer.has_beta = has_beta;
  const GuardedBuffer exact = layer.reference();
  GuardedBuffer sum("sum", dtype, exact.count()), parts("parts", dtype, exact.count());
  matmul_ref({.m = problem.rows,
              .n = problem.columns,
              .k = problem.terms,
              .trans_b = Transpose::kYes,
              .a = dtype,
              .b = dtype,
              .c = dtype,
              .writes = MatmulWrites::kAddend},
             {.a = layer.x.view(),
              .b = layer.w.view(),
              .bias = {},
              .c = sum.view(),
              .addend = layer.residual.view()});
  bias_dropout_residual_norm_fwd_ref({.x = sum.view(),
                                      .bias = layer.bias.view(),
                                      .residual = {},
                                      .gain = layer.gain.view(),
                                      .beta = has_beta ? layer.beta.view() : View{},
                                      .y = parts.view(),
                                      .x_hat = {},
                                      .rstd = {},
                                      .sum = {},
                                      .T = problem.rows,
                                      .C = problem.columns,
                                      .eps = LinearNormCase::kEps,
                                      .p = 0.0,
                                      .where = {}});
  EXPECT_TRUE(
      test::compare(parts, exact, {.per_element = layer.bounds(), .shape = {problem.rows, problem.columns}})
          .ok());
}

TEST(LinearNorm, TheReferenceMatchesThatOfItsParts) {
  check_against_parts(DType::kBF16, 0.0);
  check_against_parts(DType::kF16, 0.0);
  check_against_parts(DType::kF32, 0.0);
  check_against_parts(DType::kBF16, 20.0);
  check_against_parts(DType::kBF16, 0.0, false);
}

// Compares the reference with a result computed by hand: s = (1, 3) has mean 2 and variance 1.
TEST(LinearNorm, NormalizesTheSum) {
  GuardedBuffer x("x", DType::kF64, 2), w("w", DType::kF64, 4), bias("bias", DType::kF64, 2);
  GuardedBuffer residual("residual", DType::kF64, 2), gain("gain", DType::kF64, 2),
      beta("beta", DType::kF64, 2);
  GuardedBuffer y("y", DType::kF64, 2);
  const auto set = [](GuardedBuffer& buffer, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) buffer.view().store(static_cast<int64_t>(i), values[i]);
  };
  set(x, {2, 1});
  set(w, {1, -2, 0, 1});  // x w^T is then (0, 1)
  set(bias, {0.5, 1});
  set(residual, {0.5, 1});
  set(gain, {3, 5});
  set(beta, {0, 1});
  linear_norm_ref({.rows = 1, .columns = 2, .terms = 2}, {.x = x.view(),
                                                          .w = w.view(),
                                                          .bias = bias.view(),
                                                          .residual = residual.view(),
                                                          .gain = gain.view(),
                                                          .beta = beta.view(),
                                                          .y = y.view(),
                                                          .eps = 0.0});
  EXPECT_DOUBLE_EQ(y.load(0), -3.0);
  EXPECT_DOUBLE_EQ(y.load(1), 6.0);
}

TEST(LinearNorm, HopperTakesRowsOfFewTiles) {
  const auto selected = [](const LinearProblem& problem) {
    return select_kernel(asked_of(problem, "linear_norm"));
  };
  const LinearProblem bert{.rows = 32768, .columns = 1024, .terms = 4096, .sm = 90};
  ASSERT_NE(selected(bert).row, nullptr);
  EXPECT_EQ(selected(bert).row->implementation, "linear_norm_cuda");
  EXPECT_EQ(selected(bert).scratch_bytes, kCublasLtWorkspaceBytes);
  EXPECT_TRUE(linear_norm_takes_own_product(bert));
  LinearProblem other = bert;
  other.columns = 2304;
  EXPECT_FALSE(linear_norm_takes_own_product(other));
  ASSERT_EQ(selected(other).row, nullptr);
  EXPECT_NE(selected(other).refused.front().reason.find("at most 2048 columns, but there are 2304"),
            std::string::npos);
  other = bert;
  other.sm = 100;
  ASSERT_EQ(selected(other).row, nullptr);
  EXPECT_NE(selected(other).refused.front().reason.find("this GPU has 10.0"), std::string::npos);
}

// A GPU with 132 multiprocessors runs 132 thread blocks at a time. If four blocks compute 128 rows, 33 groups of 128 rows run at a time: 32
// groups nearly fill one round, and 36 groups leave most of a second round empty. If three blocks compute 128 rows, 44 groups fit into one
// round.
TEST(LinearNorm, HalfEmptyRoundsUseTheLibrary) {
  LinearProblem problem{.rows = 128 * 32, .columns = 1024, .terms = 1024, .sm = 90};
  EXPECT_TRUE(linear_norm_takes_own_product(problem));
  problem.rows = 128 * 36;
  EXPECT_FALSE(linear_norm_takes_own_product(problem));
  problem.columns = 768;
  problem.rows = 128 * 40;
  EXPECT_TRUE(linear_norm_takes_own_product(problem));
}

}  // namespace
}  // namespace plimsoll
