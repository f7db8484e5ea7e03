// Tests root-mean-square normalization of rows and of heads: compares the fast kernels with the references within the error bounds of the
// contract, and tests the gradient of the references, aliasing, accumulation, and the elements that are only copied.
#include "kernels/layer_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/catalog/catalog.h"
#include "kernels/layer_norm/testing/rms_norm_case.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

void expect_near(const GuardedBuffer& got, const GuardedBuffer& want, const std::vector<double>& bounds) {
  const Comparison result = compare(got, want, limit_of(bounds, Zeros::kExpected));
  EXPECT_TRUE(result.ok()) << got.name() << " " << result;
}

TEST(RmsNorm, AgreesWithTheReference) {
  int checked = 0;
  for (const RmsNormDims& dims : norm_dims()) {
    for (const DType dtype : fast_types()) {
      for (const DType gains : fast_types()) {
        if (dtype == DType::kF32 && gains == DType::kBF16) continue;
        RmsCase test(dims, dtype, gains);
        SCOPED_TRACE(test.name);
        const std::vector<double> y_bounds = test.y_bounds(), d_x_bounds = test.d_x_bounds();
        FastRows(rms_norm_fwd_ref, rms_norm_bwd_ref)
            .for_each(dtype, RowsProblem{.rows = dims.T * std::max(dims.H, dims.G), .columns = dims.C},
                      [&](const auto& rms_norm_fwd, const auto& rms_norm_bwd) {
                        GuardedBuffer y("y", dtype, dims.T * dims.N), rstd("rstd", DType::kF32, test.vectors);
                        GuardedBuffer d_x("d_x", dtype, dims.T * dims.N),
                            d_gain("d_gain", DType::kF32, dims.C);
                        GuardedBuffer d_second("d_second", DType::kF32, dims.C),
                            scratch = scratch_of(rms_norm_bwd.scratch_bytes());
                        d_second.fill(0.0);
                        run_with_one_and_two_threads({&y, &rstd, &d_x, &d_gain, &d_second}, [&] {
                          rms_norm_fwd(test.fwd(y, rstd));
                          rms_norm_bwd(test.bwd(d_x, d_gain, d_second, scratch.view()));
                        });
                        EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
                        expect_near(y, test.want_y, y_bounds);
                        expect_near(rstd, test.want_rstd, test.rstd_bounds());
                        expect_near(d_x, test.want_d_x, d_x_bounds);
                        const double depth = rms_norm_gain_depth(dims);
                        expect_near(d_gain, test.want_gain, test.gain_bounds(test.gain, depth));
                        if (dims.G > 0)
                          expect_near(d_second, test.want_second, test.gain_bounds(test.second_gain, depth));
                      });
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, static_cast<int>(norm_dims().size()) * 3);
}

TEST(RmsNorm, InPlaceAndAddedResultsAreTheSame) {
  const RmsNormDims dims{.T = 9, .N = 6 * 16 + 3, .C = 16, .H = 4, .G = 1};
  RmsCase test(dims, DType::kF32, DType::kF32);
  GuardedBuffer y("y", DType::kF32, dims.T * dims.N), rstd("rstd", DType::kF32, test.vectors);
  GuardedBuffer d_x("d_x", DType::kF32, dims.T * dims.N), d_gain("d_gain", DType::kF32, dims.C);
  GuardedBuffer d_second("d_second", DType::kF32, dims.C),
      scratch = scratch_of(rms_norm_bwd_scratch_bytes(dims));
  rms_norm_fwd_cpu(test.fwd(y, rstd));
  rms_norm_bwd_cpu(test.bwd(d_x, d_gain, d_second, scratch.view()));

  GuardedBuffer in_place("in place", DType::kF32, dims.T * dims.N);
  in_place.assign(test.x.to_doubles());
  RmsNormFwdArgs forward = test.fwd(in_place, rstd);
  forward.x = in_place.view();
  forward.rstd = {};
  rms_norm_fwd_cpu(forward);
  EXPECT_TRUE(compare_bits(in_place, y).ok());

  in_place.assign(test.d_y.to_doubles());
  GuardedBuffer sum("sum", DType::kF32, dims.C), second_sum("second sum", DType::kF32, dims.C);
  sum.fill(2.0);
  second_sum.fill(3.0);
  RmsNormBwdArgs backward = test.bwd(in_place, sum, second_sum, scratch.view());
  backward.d_y = in_place.view();
  backward.accumulate = Accumulate::kAdd;
  rms_norm_bwd_cpu(backward);
  EXPECT_TRUE(compare_bits(in_place, d_x).ok());
  for (int64_t c = 0; c < dims.C; ++c) {
    EXPECT_NEAR(sum.load(c), d_gain.load(c) + 2.0, 1e-5);
    EXPECT_NEAR(second_sum.load(c), d_second.load(c) + 3.0, 1e-5);
  }
}

// With a residual, the result must have the same bits as if the residual were added, the sum stored, and the stored sum normalized in
// separate steps, and the backward pass must add the gradient of the stored sum. The sum may overwrite the residual while y overwrites x,
// and d_x may overwrite d_sum_term.
TEST(RmsNorm, AddsAResidualAndTheGradientOfTheSum) {
  for (const RmsNormDims& dims : norm_dims()) {
    if (dims.C != dims.N) continue;
    for (const DType dtype : fast_types()) {
      RmsCase test(dims, dtype, DType::kF32);
      SCOPED_TRACE(test.name);
      const int64_t size = dims.T * dims.N;
      GuardedBuffer residual("residual", dtype, size), sum("sum", dtype, size),
          want_sum("want sum", dtype, size);
      residual.fill_normal(0.1, 3.0);
      add_fwd_cpu({test.x.view(), residual.view(), want_sum.view(), size});
      for_each_simd_target([&] {
        GuardedBuffer y("y", dtype, size), want_y("want y", dtype, size), rstd("rstd", DType::kF32, dims.T),
            want_rstd("want rstd", DType::kF32, dims.T);
        RmsNormFwdArgs alone = test.fwd(want_y, want_rstd);
        alone.x = want_sum.view();
        rms_norm_fwd_cpu(alone);
        RmsNormFwdArgs args = test.fwd(y, rstd);
        args.residual = residual.view();
        args.sum = sum.view();
        run_with_one_and_two_threads({&y, &rstd, &sum}, [&] { rms_norm_fwd_cpu(args); });
        EXPECT_TRUE(compare_bits(sum, want_sum).ok());
        EXPECT_TRUE(compare_bits(y, want_y).ok());
        EXPECT_TRUE(compare_bits(rstd, want_rstd).ok());
        GuardedBuffer over_x("over x", dtype, size), over_residual("over residual", dtype, size);
        over_x.assign(test.x.to_doubles());
        over_residual.assign(residual.to_doubles());
        args.x = args.y = over_x.view();
        args.residual = args.sum = over_residual.view();
        rms_norm_fwd_cpu(args);
        EXPECT_TRUE(compare_bits(over_x, y).ok());
        EXPECT_TRUE(compare_bits(over_residual, sum).ok());

        GuardedBuffer d_x("d_x", dtype, size), d_gain("d_gain", DType::kF32, dims.C),
            want_gain("want d_gain", DType::kF32, dims.C), none("none", DType::kF32, dims.C),
            scratch = scratch_of(rms_norm_bwd_scratch_bytes(dims));
        rms_norm_bwd_cpu(test.bwd(d_x, want_gain, none, scratch.view()));
        RmsNormBwdArgs backward = test.bwd(over_x, d_gain, none, scratch.view());
        over_x.assign(residual.to_doubles());
        backward.d_sum_term = over_x.view();
        rms_norm_bwd_cpu(backward);
        EXPECT_TRUE(compare_bits(d_gain, want_gain).ok());
        const std::vector<double> bounds = test.d_x_bounds();
        for (int64_t i = 0; i < size; ++i) {
          const double want = test.want_d_x.load(i) + residual.load(i);
          ASSERT_NEAR(over_x.load(i), want,
                      bounds[static_cast<size_t>(i)] + 1.01 * kRoundoffF32 * std::abs(want) +
                          store_error_bound(dtype, want))
              << i;
        }
      });
    }
  }
}

TEST(RmsNorm, BackwardIsTheDerivative) {
  for (const RmsNormDims& dims :
       {RmsNormDims{.T = 3, .N = 5, .C = 5}, RmsNormDims{.T = 2, .N = 14, .C = 3, .H = 2, .G = 1}}) {
    RmsCase test(dims, DType::kF64, DType::kF64);
    GuardedBuffer y("y", DType::kF64, dims.T * dims.N), rstd("rstd", DType::kF64, test.vectors);
    const auto loss = [&] {
      rms_norm_fwd_ref(test.fwd(y, rstd));
      return weighted_sum(test.d_y, y);
    };
    loss();
    GuardedBuffer d_x("d_x", DType::kF64, dims.T * dims.N), d_gain("d_gain", DType::kF64, dims.C);
    GuardedBuffer d_second("d_second", DType::kF64, dims.C);
    RmsNormBwdArgs args = test.bwd(d_x, d_gain, d_second, {});
    args.rstd = rstd.view();
    rms_norm_bwd_ref(args);
    expect_gradient(test.x, d_x, loss);
    expect_gradient(test.gain, d_gain, loss);
    if (dims.G > 0) expect_gradient(test.second_gain, d_second, loss);
  }
}

TEST(RmsNorm, RowsOfZerosStayZero) {
  const RmsNormDims dims{.T = 2, .N = 8, .C = 8};
  GuardedBuffer x("x", DType::kF32, 16), gain("gain", DType::kF32, 8), y("y", DType::kF32, 16),
      rstd("rstd", DType::kF32, 2);
  x.fill(0.0);
  gain.fill_normal();
  rms_norm_fwd_cpu({dims, x.view(), gain.view(), {}, y.view(), rstd.view(), 1e-4});
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(y.load(i), 0.0);
  EXPECT_NEAR(rstd.load(1), 100.0, 1e-4);
}

TEST(RmsNorm, TheCatalogStatesItsScratch) {
  Problem problem{.kernel = "rms_norm_bwd", .family = RowsProblem{.rows = 4096, .columns = 2048}};
  EXPECT_EQ(select_kernel(problem).row->implementation, "rms_norm_bwd_cpu");
  EXPECT_EQ(select_kernel(problem).scratch_bytes,
            rms_norm_bwd_scratch_bytes({.T = 4096, .N = 2048, .C = 2048}));
  problem.target = {.device = KernelDevice::kCuda, .sm = 90};
  EXPECT_EQ(select_kernel(problem).row->implementation, "rms_norm_bwd_cuda");
  EXPECT_EQ(select_kernel(problem).scratch_bytes,
            rms_norm_bwd_cuda_scratch_bytes({.T = 4096, .N = 2048, .C = 2048}));
  problem.family = RowsProblem{.rows = 4, .columns = kMaxRmsNormCudaColumns + 1};
  EXPECT_EQ(select_kernel(problem).row, nullptr);
}

}  // namespace
}  // namespace plimsoll::test
