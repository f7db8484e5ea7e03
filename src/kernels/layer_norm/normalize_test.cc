#include "kernels/layer_norm/normalize.h"

#include <gtest/gtest.h>

#include "kernels/catalog/catalog.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/element_wise/testing/kernel_cases.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// The error bounds of the forward pass for x. They depend on exact values of each row, computed in double.
struct ForwardBounds {
  std::vector<double> x_hat, rstd;
};
ForwardBounds forward_bounds(const GuardedBuffer& x, const GuardedBuffer& x_hat, const GuardedBuffer& rstd,
                             RowsAndColumns shape, DType stored) {
  ForwardBounds bounds;
  for (int64_t t = 0; t < shape.T; ++t) {
    RowMagnitudes row;
    row.rstd = rstd.load(t);
    for (int64_t c = 0; c < shape.C; ++c) {
      row.mean_abs += std::abs(x.load(t * shape.C + c)) / static_cast<double>(shape.C);
    }
    bounds.rstd.push_back(rstd_error_bound(row, shape.C));
    for (int64_t c = 0; c < shape.C; ++c) {
      bounds.x_hat.push_back(normalize_fwd_error_bound(row, x_hat.load(t * shape.C + c), shape.C, stored));
    }
  }
  return bounds;
}

void check_forward(GuardedBuffer& x, RowsAndColumns shape, double eps) {
  const DType dtype = x.dtype();
  GuardedBuffer want("want", DType::kF64, shape.size()), want_rstd("want rstd", DType::kF64, shape.T);
  normalize_fwd_ref({x.view(), want.view(), want_rstd.view(), shape.T, shape.C, eps});
  const ForwardBounds bounds = forward_bounds(x, want, want_rstd, shape, dtype);
  const Zeros zeros = shape.C == 1 ? Zeros::kExpected : Zeros::kSuspicious;
  FastRows(normalize_fwd_ref)
      .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& normalize_fwd) {
        GuardedBuffer x_hat("x_hat", dtype, shape.size()), rstd("rstd", DType::kF32, shape.T);
        run_with_one_and_two_threads({&x_hat, &rstd}, [&] {
          normalize_fwd({x.view(), x_hat.view(), rstd.view(), shape.T, shape.C, eps});
        });
        EXPECT_TRUE(compare(x_hat, want, limit_of(bounds.x_hat, zeros)).ok())
            << compare(x_hat, want, limit_of(bounds.x_hat, zeros));
        EXPECT_TRUE(compare(rstd, want_rstd, limit_of(bounds.rstd)).ok())
            << compare(rstd, want_rstd, limit_of(bounds.rstd));
        GuardedBuffer in_place("in place", dtype, shape.size());
        in_place.assign(x.to_doubles());
        normalize_fwd({in_place.view(), in_place.view(), rstd.view(), shape.T, shape.C, eps});
        EXPECT_TRUE(compare_bits(in_place, x_hat).ok());
      });
}

TEST(Normalize, ForwardAgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, shape.size());
      x.fill_normal(0.5, 2.0);
      check_forward(x, shape, 1e-12);
    }
  }
}

// The mean is 1000 times the standard deviation. A kernel that computes the variance as E[x^2] - mean^2 would lose 20 of 24 bits.
TEST(Normalize, ForwardKeepsItsAccuracyFarFromZero) {
  const RowsAndColumns shape{7, 768};
  GuardedBuffer x(tensor_name("x", shape, DType::kF32), DType::kF32, shape.size());
  x.fill_normal(1000.0, 1.0);
  check_forward(x, shape, 1e-5);
}

TEST(Normalize, EqualNumbersGiveZeroAndAFiniteScale) {
  GuardedBuffer x("x", DType::kF32, 2 * 40);
  x.fill(0.0);
  for (int64_t i = 40; i < 80; ++i) x.view().store(i, 3.0);
  for_each_simd_target([&] {
    GuardedBuffer x_hat("x_hat", DType::kF32, 80), rstd("rstd", DType::kF32, 2);
    normalize_fwd_cpu({x.view(), x_hat.view(), rstd.view(), 2, 40, 1e-12});
    for (int64_t i = 0; i < 80; ++i) EXPECT_EQ(x_hat.load(i), 0.0);
    for (int64_t t = 0; t < 2; ++t) EXPECT_NEAR(rstd.load(t), 1e6, 1.0);
  });
}

TEST(Normalize, BackwardAgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      GuardedBuffer g(tensor_name("g", shape, dtype), dtype, shape.size());
      GuardedBuffer x_hat(tensor_name("x_hat", shape, dtype), dtype, shape.size());
      GuardedBuffer rstd(tensor_name("rstd", shape, DType::kF32), DType::kF32, shape.T);
      g.fill_normal();
      x_hat.fill_normal();
      rstd.fill_uniform(0.5, 2.0);
      GuardedBuffer want("want", DType::kF64, shape.size());
      normalize_bwd_ref({g.view(), x_hat.view(), rstd.view(), want.view(), shape.T, shape.C});
      std::vector<double> bounds;
      for (int64_t t = 0; t < shape.T; ++t) {
        double mean_abs_g = 0.0, mean_abs_gx = 0.0;
        for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
          mean_abs_g += std::abs(g.load(i)) / static_cast<double>(shape.C);
          mean_abs_gx += std::abs(g.load(i) * x_hat.load(i)) / static_cast<double>(shape.C);
        }
        for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
          bounds.push_back(normalize_bwd_error_bound(rstd.load(t), g.load(i), x_hat.load(i), mean_abs_g,
                                                     mean_abs_gx, shape.C) +
                           store_error_bound(dtype, want.load(i)));
        }
      }
      FastRows(normalize_bwd_ref)
          .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& normalize_bwd) {
            GuardedBuffer d_x("d_x", dtype, shape.size());
            run_with_one_and_two_threads({&d_x}, [&] {
              normalize_bwd({g.view(), x_hat.view(), rstd.view(), d_x.view(), shape.T, shape.C});
            });
            EXPECT_TRUE(compare(d_x, want, limit_of(bounds)).ok()) << compare(d_x, want, limit_of(bounds));
            GuardedBuffer in_place("in place", dtype, shape.size());
            in_place.assign(g.to_doubles());
            normalize_bwd({in_place.view(), x_hat.view(), rstd.view(), in_place.view(), shape.T, shape.C});
            EXPECT_TRUE(compare_bits(in_place, d_x).ok());
          });
    }
  }
}

TEST(Normalize, BackwardIsTheDerivative) {
  const RowsAndColumns shape{3, 6};
  GuardedBuffer x(tensor_name("x", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, shape.size());
  x.fill_normal();
  weights.fill_normal();
  GuardedBuffer x_hat("x_hat", DType::kF64, shape.size()), rstd("rstd", DType::kF64, shape.T);
  GuardedBuffer d_x("d_x", DType::kF64, shape.size());
  const auto loss = [&] {
    normalize_fwd_ref({x.view(), x_hat.view(), rstd.view(), shape.T, shape.C, 1e-5});
    return weighted_sum(weights, x_hat);
  };
  loss();
  normalize_bwd_ref({weights.view(), x_hat.view(), rstd.view(), d_x.view(), shape.T, shape.C});
  expect_gradient(x, d_x, loss, 1e-7);
}

TEST(Normalize, RefusesRowsThatDoNotFit) {
  GuardedBuffer x("x", DType::kF32, kMaxNormColumns + 1), rstd("rstd", DType::kF32, 1);
  EXPECT_THROW(normalize_fwd_cpu({x.view(), x.view(), rstd.view(), 1, kMaxNormColumns + 1}), Error);
  x.fill_normal();
  normalize_fwd_cpu({x.view(), x.view(), rstd.view(), 1, kMaxNormColumns});
  EXPECT_NEAR(rstd.load(0), 1.0, 0.05);
}

TEST(LayerNormCatalog, StatesTheScratchOfTheKernelsAndWhyRowsAreDeclined) {
  Problem problem{.kernel = "bias_dropout_residual_norm_bwd",
                  .family = RowsProblem{.rows = 4096, .columns = 384}};
  EXPECT_EQ(select_kernel(problem).row->implementation, "bias_dropout_residual_norm_bwd_cpu");
  EXPECT_EQ(select_kernel(problem).scratch_bytes, bias_dropout_residual_norm_bwd_scratch_bytes(4096, 384));
  problem.family = RowsProblem{.rows = 4, .columns = kMaxNormColumns + 1};
  const Selection declined = select_kernel(problem);
  EXPECT_EQ(declined.row->implementation, "bias_dropout_residual_norm_bwd_ref");
  ASSERT_EQ(declined.refused.size(), 1u);
  EXPECT_NE(declined.refused[0].reason.find("but have 16385"), std::string::npos)
      << declined.refused[0].reason;
  problem = {.kernel = "scale_shift_bwd", .family = RowsProblem{.rows = 100, .columns = 17}};
  EXPECT_EQ(select_kernel(problem).scratch_bytes, scale_shift_bwd_scratch_bytes(100, 17));
  problem.kernel = "bias_gelu_bwd";
  EXPECT_EQ(select_kernel(problem).scratch_bytes, bias_gelu_bwd_scratch_bytes(100, 17));
  problem.kernel = "bias_grad";
  EXPECT_EQ(select_kernel(problem).scratch_bytes, bias_grad_scratch_bytes(100, 17));
}

}  // namespace
}  // namespace plimsoll::test
