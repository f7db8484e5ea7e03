#include "kernels/layer_norm/bias_dropout_residual_norm.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/add.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/element_wise/testing/kernel_cases.h"
#include "kernels/layer_norm/testing/norm_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// Returns cases with all operands and with some of the optional operands absent, at every size, and with activations and parameters of
// different types at one size.
std::vector<NormCase> norm_cases() {
  std::vector<NormCase> cases;
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      cases.push_back({.shape = shape, .dtype = dtype, .p = 0.1, .accumulate = Accumulate::kAdd});
      cases.push_back(
          {.shape = shape, .dtype = dtype, .has_bias = false, .has_residual = false, .has_d_y2 = false});
      cases.push_back({.shape = shape, .dtype = dtype, .has_d_y2 = false, .has_beta = false});
      cases.push_back({.shape = shape, .dtype = dtype, .p = 0.1, .has_d_y2 = false, .has_d_sum_term = true});
    }
  }
  for (const bool present : {false, true}) {
    cases.push_back({.shape = {33, 384},
                     .parameters = DType::kBF16,
                     .p = 0.3,
                     .has_bias = present,
                     .has_residual = !present,
                     .has_d_y2 = present});
  }
  cases.push_back({.shape = {33, 384}, .dtype = DType::kBF16, .parameters = DType::kBF16, .p = 0.3});
  return cases;
}

void check_forward(const NormCase& test) {
  const RowsAndColumns shape = test.shape;
  ForwardTensors tensors(test);
  GuardedBuffer want_y("want y", DType::kF64, shape.size()),
      want_x_hat("want x_hat", DType::kF64, shape.size());
  GuardedBuffer want_rstd("want rstd", DType::kF64, shape.T);
  BiasDropoutResidualNormFwdArgs args = tensors.args;
  args.y = want_y.view();
  args.x_hat = want_x_hat.view();
  args.rstd = want_rstd.view();
  bias_dropout_residual_norm_fwd_ref(args);
  const ForwardBounds bounds = forward_bounds(test, tensors, want_x_hat, want_y, want_rstd);
  const Zeros zeros = shape.C == 1 ? Zeros::kExpected : Zeros::kSuspicious;
  FastRows(bias_dropout_residual_norm_fwd_ref)
      .for_each(test.dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& norm_fwd) {
        GuardedBuffer y("y", test.dtype, shape.size()), x_hat("x_hat", test.dtype, shape.size());
        GuardedBuffer rstd("rstd", DType::kF32, shape.T);
        args.y = y.view();
        args.x_hat = x_hat.view();
        args.rstd = rstd.view();
        run_with_one_and_two_threads({&y, &x_hat, &rstd}, [&] { norm_fwd(args); });
        const Zeros zeros_of_y = test.has_beta ? Zeros::kSuspicious : zeros;
        EXPECT_TRUE(compare(y, want_y, limit_of(bounds.y, zeros_of_y)).ok())
            << compare(y, want_y, limit_of(bounds.y, zeros_of_y));
        EXPECT_TRUE(compare(x_hat, want_x_hat, limit_of(bounds.x_hat, zeros)).ok())
            << compare(x_hat, want_x_hat, limit_of(bounds.x_hat, zeros));
        EXPECT_TRUE(compare(rstd, want_rstd, limit_of(bounds.rstd)).ok())
            << compare(rstd, want_rstd, limit_of(bounds.rstd));
        // Outputs may overwrite inputs: y overwrites x while x_hat overwrites the residual; then y overwrites the residual, and x_hat is
        // not requested.
        GuardedBuffer over_x("over x", test.dtype, shape.size()),
            over_residual("over r", test.dtype, shape.size());
        over_x.assign(tensors.x.to_doubles());
        over_residual.assign(tensors.residual.to_doubles());
        BiasDropoutResidualNormFwdArgs aliased = args;
        aliased.x = aliased.y = over_x.view();
        aliased.x_hat = over_residual.view();
        if (test.has_residual) aliased.residual = over_residual.view();
        norm_fwd(aliased);
        EXPECT_TRUE(compare_bits(over_x, y).ok());
        EXPECT_TRUE(compare_bits(over_residual, x_hat).ok());
        over_residual.assign(tensors.residual.to_doubles());
        aliased = args;
        if (test.has_residual) aliased.residual = over_residual.view();
        aliased.y = over_residual.view();
        aliased.x_hat = {};
        aliased.rstd = {};
        norm_fwd(aliased);
        EXPECT_TRUE(compare_bits(over_residual, y).ok());
      });
}

TEST(BiasDropoutResidualNorm, ForwardAgreesWithTheReference) {
  for (const NormCase& test : norm_cases()) check_forward(test);
}

// The sum s = residual + dropout(x + bias) must be within its error bound of the exact sum. y, x_hat and rstd must have the bits that a
// separate norm computes from the stored s. s may overwrite the residual while y overwrites x.
TEST(BiasDropoutResidualNorm, TheSumIsStoredAndNormalizedAsItIsStored) {
  for (const NormCase& test : norm_cases()) {
    if (!test.has_residual) continue;
    const int64_t size = test.shape.size();
    ForwardTensors tensors(test);
    const std::vector<SumAndBound> want = exact_sums(test, tensors);
    FastRows(bias_dropout_residual_norm_fwd_ref)
        .for_each(
            test.dtype, RowsProblem{.rows = test.shape.T, .columns = test.shape.C},
            [&](const auto& norm_fwd) {
              GuardedBuffer y("y", test.dtype, size), x_hat("x_hat", test.dtype, size),
                  sum("sum", test.dtype, size);
              GuardedBuffer rstd("rstd", DType::kF32, test.shape.T);
              BiasDropoutResidualNormFwdArgs args = tensors.args;
              args.y = y.view();
              args.x_hat = x_hat.view();
              args.rstd = rstd.view();
              args.sum = sum.view();
              run_with_one_and_two_threads({&y, &x_hat, &rstd, &sum}, [&] { norm_fwd(args); });
              for (int64_t i = 0; i < size; ++i) {
                ASSERT_NEAR(sum.load(i), want[static_cast<size_t>(i)].sum, want[static_cast<size_t>(i)].bound)
                    << i;
              }
              GuardedBuffer of_sum("y of the sum", test.dtype, size),
                  x_hat_of_sum("x_hat of the sum", test.dtype, size);
              GuardedBuffer rstd_of_sum("rstd of the sum", DType::kF32, test.shape.T);
              BiasDropoutResidualNormFwdArgs alone = args;
              alone.x = sum.view();
              alone.bias = alone.residual = {};
              alone.p = 0.0;
              alone.y = of_sum.view();
              alone.x_hat = x_hat_of_sum.view();
              alone.rstd = rstd_of_sum.view();
              alone.sum = {};
              norm_fwd(alone);
              EXPECT_TRUE(compare_bits(of_sum, y).ok());
              EXPECT_TRUE(compare_bits(x_hat_of_sum, x_hat).ok());
              EXPECT_TRUE(compare_bits(rstd_of_sum, rstd).ok());
              of_sum.assign(tensors.x.to_doubles());
              x_hat_of_sum.assign(tensors.residual.to_doubles());
              args.x = args.y = of_sum.view();
              args.residual = args.sum = x_hat_of_sum.view();
              norm_fwd(args);
              EXPECT_TRUE(compare_bits(of_sum, y).ok());
              EXPECT_TRUE(compare_bits(x_hat_of_sum, sum).ok());
            });
  }
}

// d_residual may overwrite d_y, and d_x may overwrite d_y2 or x_hat, without changing any bit. An output must have the same bits if the
// other outputs are not requested.
void expect_aliases_and_absences_change_nothing(const RowKernel<BiasDropoutResidualNormBwdArgs>& norm_bwd,
                                                const NormCase& test, BackwardTensors& tensors,
                                                const GuardedBuffer& before, Gradients& got,
                                                GuardedBuffer& scratch) {
  Gradients again(test.shape, test.dtype, DType::kF32);
  again.d_residual.assign(tensors.d_y.to_doubles());
  again.d_x.assign((test.has_d_y2 ? tensors.d_y2 : tensors.x_hat).to_doubles());
  BiasDropoutResidualNormBwdArgs args = again.into(tensors.args);
  args.accumulate = Accumulate::kOverwrite;
  args.scratch = scratch.view();
  args.d_y = again.d_residual.view();
  (test.has_d_y2 ? args.d_y2 : args.x_hat) = again.d_x.view();
  norm_bwd(args);
  EXPECT_TRUE(compare_bits(again.d_residual, got.d_residual).ok());
  EXPECT_TRUE(compare_bits(again.d_x, got.d_x).ok());
  BiasDropoutResidualNormBwdArgs lean = tensors.args;
  GuardedBuffer alone("alone", test.dtype, test.shape.size());
  lean.scratch = scratch.view();
  lean.d_x = alone.view();
  norm_bwd(lean);
  EXPECT_TRUE(compare_bits(alone, got.d_x).ok());
  lean.d_x = {};
  lean.d_residual = alone.view();
  norm_bwd(lean);
  EXPECT_TRUE(compare_bits(alone, got.d_residual).ok());
  GuardedBuffer gain("d_gain alone", DType::kF32, test.shape.C),
      bias("d_bias alone", DType::kF32, test.shape.C);
  gain.assign(before.to_doubles());
  bias.assign(before.to_doubles());
  lean.d_gain = gain.view();
  lean.d_bias = bias.view();
  lean.accumulate = test.accumulate;
  norm_bwd(lean);
  EXPECT_TRUE(compare_bits(gain, got.d_gain).ok());
  EXPECT_TRUE(compare_bits(bias, got.d_bias).ok());
}

void check_backward(const NormCase& test) {
  const RowsAndColumns shape = test.shape;
  BackwardTensors tensors(test);
  GuardedBuffer before(tensor_name("before", shape, test.dtype), DType::kF32, shape.C);
  before.fill_normal();
  Gradients want(shape, DType::kF64, DType::kF64);
  want.hold(before);
  bias_dropout_residual_norm_bwd_ref(want.into(tensors.args));
  const BackwardBounds bounds =
      backward_bounds(test, tensors, want, before, column_sum_depth(shape.T, shape.C));
  FastRows(bias_dropout_residual_norm_bwd_ref)
      .for_each(test.dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& norm_bwd) {
        Gradients got(shape, test.dtype, DType::kF32);
        got.hold(before);
        GuardedBuffer scratch = scratch_of(norm_bwd.scratch_bytes());
        BiasDropoutResidualNormBwdArgs args = got.into(tensors.args);
        args.scratch = scratch.view();
        run_with_one_and_two_threads({&got.d_residual, &got.d_x, &got.d_bias, &got.d_gain, &got.d_beta},
                                     [&] { norm_bwd(args); });
        expect_within(got, want, bounds);
        EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
        expect_aliases_and_absences_change_nothing(norm_bwd, test, tensors, before, got, scratch);
      });
}

TEST(BiasDropoutResidualNorm, BackwardAgreesWithTheReference) {
  for (const NormCase& test : norm_cases()) check_backward(test);
}

TEST(BiasDropoutResidualNorm, BackwardDropsWhereForwardDid) {
  const RowsAndColumns shape{5, 301};
  BackwardTensors tensors({.shape = shape, .p = 0.5});
  for_each_simd_target([&] {
    Gradients got(shape, DType::kF32, DType::kF32);
    GuardedBuffer scratch = scratch_of(bias_dropout_residual_norm_bwd_scratch_bytes(shape.T, shape.C));
    BiasDropoutResidualNormBwdArgs args = got.into(tensors.args);
    args.scratch = scratch.view();
    // `first_block` is the number of 16-byte blocks of random numbers to skip. It is not 0 if other ranks compute the earlier rows.
    for (const uint64_t first_block : {0, 3}) {
      args.where.first_block = first_block;
      bias_dropout_residual_norm_bwd_cpu(args);
      for (int64_t i = 0; i < shape.size(); ++i) {
        const uint64_t element = first_block * kHalvesOfBlock + static_cast<uint64_t>(i);
        const bool kept = random_half(kSite, element) >= dropout_threshold(0.5);
        EXPECT_EQ(got.d_x.load(i), kept ? 2.0 * got.d_residual.load(i) : 0.0);
      }
    }
  });
}

TEST(BiasDropoutResidualNorm, RowsWithoutGradientContributeNothing) {
  const RowsAndColumns shape{40, 19};
  BackwardTensors tensors({.shape = shape, .p = 0.2});
  for (int64_t i = 25 * shape.C; i < shape.size(); ++i) {
    tensors.d_y.view().store(i, 0.0);
    tensors.d_y2.view().store(i, 0.0);
  }
  for_each_simd_target([&] {
    std::vector<std::vector<double>> sums;
    for (const double tail : {0.0, 1.5, -1e10}) {
      for (int64_t i = 25 * shape.C; i < shape.size(); ++i) tensors.x_hat.view().store(i, tail);
      Gradients got(shape, DType::kF32, DType::kF32);
      GuardedBuffer scratch = scratch_of(bias_dropout_residual_norm_bwd_scratch_bytes(shape.T, shape.C));
      BiasDropoutResidualNormBwdArgs args = got.into(tensors.args);
      args.scratch = scratch.view();
      bias_dropout_residual_norm_bwd_cpu(args);
      for (int64_t i = 25 * shape.C; i < shape.size(); ++i) {
        EXPECT_EQ(got.d_residual.load(i), 0.0);
        EXPECT_EQ(got.d_x.load(i), 0.0);
      }
      sums.push_back(got.d_gain.to_doubles());
      for (const GuardedBuffer* sum : {&got.d_beta, &got.d_bias}) {
        for (const double value : sum->to_doubles()) sums.back().push_back(value);
      }
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], sums[2]);
  });
}

TEST(BiasDropoutResidualNorm, BackwardIsTheDerivative) {
  const RowsAndColumns shape{3, 6};
  const NormCase test{.shape = shape, .dtype = DType::kF64, .parameters = DType::kF64, .p = 0.25};
  ForwardTensors tensors(test);
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer weights2(tensor_name("weights2", shape, DType::kF64), DType::kF64, shape.size());
  weights.fill_normal();
  weights2.fill_normal();
  GuardedBuffer y("y", DType::kF64, shape.size()), x_hat("x_hat", DType::kF64, shape.size());
  GuardedBuffer rstd("rstd", DType::kF64, shape.T);
  tensors.args.y = y.view();
  tensors.args.x_hat = x_hat.view();
  tensors.args.rstd = rstd.view();
  const auto loss = [&] {
    bias_dropout_residual_norm_fwd_ref(tensors.args);
    return weighted_sum(weights, y) + weighted_sum(weights2, y);
  };
  loss();
  Gradients gradients(shape, DType::kF64, DType::kF64);
  BiasDropoutResidualNormBwdArgs args;
  args.d_y = weights.view();
  args.d_y2 = weights2.view();
  args.x_hat = x_hat.view();
  args.rstd = rstd.view();
  args.gain = tensors.gain.view();
  args.T = shape.T;
  args.C = shape.C;
  args.p = test.p;
  args.where = kSite;
  bias_dropout_residual_norm_bwd_ref(gradients.into(args));
  expect_gradient(tensors.x, gradients.d_x, loss, 1e-7);
  expect_gradient(tensors.residual, gradients.d_residual, loss, 1e-7);
  expect_gradient(tensors.bias, gradients.d_bias, loss, 1e-7);
  expect_gradient(tensors.gain, gradients.d_gain, loss, 1e-7);
  expect_gradient(tensors.beta, gradients.d_beta, loss, 1e-7);
}

// The fused reference must equal the references of the separate operations, run one after the other.
TEST(BiasDropoutResidualNorm, ReferenceEqualsItsDecomposition) {
  const RowsAndColumns shape{4, 9};
  const NormCase test{.shape = shape, .dtype = DType::kF64, .parameters = DType::kF64, .p = 0.25};
  ForwardTensors tensors(test);
  GuardedBuffer y("y", DType::kF64, shape.size()), x_hat("x_hat", DType::kF64, shape.size());
  GuardedBuffer rstd("rstd", DType::kF64, shape.T), other_rstd("other rstd", DType::kF64, shape.T);
  GuardedBuffer s("s", DType::kF64, shape.size()), want("want", DType::kF64, shape.size());
  tensors.args.y = y.view();
  tensors.args.x_hat = x_hat.view();
  tensors.args.rstd = rstd.view();
  bias_dropout_residual_norm_fwd_ref(tensors.args);
  bias_add_fwd_ref({tensors.x.view(), tensors.bias.view(), s.view(), shape.T, shape.C});
  dropout_fwd_ref({s.view(), s.view(), shape.size(), test.p, kSite});
  add_fwd_ref({s.view(), tensors.residual.view(), s.view(), shape.size()});
  normalize_fwd_ref({s.view(), want.view(), other_rstd.view(), shape.T, shape.C, kEps});
  EXPECT_TRUE(compare(x_hat, want, {.absolute = 1e-13}).ok()) << compare(x_hat, want, {.absolute = 1e-13});
  scale_shift_fwd_ref({want.view(), tensors.gain.view(), tensors.beta.view(), want.view(), shape.T, shape.C});
  EXPECT_TRUE(compare(y, want, {.absolute = 1e-13}).ok()) << compare(y, want, {.absolute = 1e-13});
}

}  // namespace
}  // namespace plimsoll::test
