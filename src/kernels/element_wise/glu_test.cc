// Tests gated linear units: compares the fast kernels with the references within the error bounds of the contract for every activation, and
// checks the gradient of the references.
#include "kernels/element_wise/glu.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

TEST(Glu, AgreesWithTheReference) {
  int checked = 0;
  for (const RowsAndColumns shape : kernel_shapes()) {
    const auto [T, F] = shape;
    for (const DType dtype : fast_types()) {
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, 2 * T * F);
      GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, T * F);
      x.fill_normal(0.2, 2.0);
      d_y.fill_normal();
      for (const Activation activation : kActivations) {
        // SiLU is tested with every shape, the other activations with two: one whose rows are whole vectors and one whose rows are not.
        if (activation != Activation::kSilu && !(T == 5 && F == 384) && !(T == 5 && F == 17)) continue;
        GuardedBuffer want_y("want y", DType::kF64, T * F), want_d_x("want d_x", DType::kF64, 2 * T * F);
        glu_fwd_ref({x.view(), want_y.view(), T, F, activation});
        glu_bwd_ref({x.view(), d_y.view(), want_d_x.view(), T, F, activation});
        std::vector<double> y_bounds, d_x_bounds(static_cast<size_t>(2 * T * F));
        for (int64_t at = 0; at < T * F; ++at) {
          const int64_t gate_at = at / F * 2 * F + at % F;
          const double gate = x.load(gate_at), up = x.load(gate_at + F);
          y_bounds.push_back(glu_fwd_error_bound(gate, up, activation, dtype));
          d_x_bounds[static_cast<size_t>(gate_at)] =
              glu_bwd_error_bound(gate, up, d_y.load(at), activation, dtype);
          d_x_bounds[static_cast<size_t>(gate_at + F)] =
              glu_fwd_error_bound(gate, d_y.load(at), activation, dtype);
        }
        FastRows(glu_fwd_ref, glu_bwd_ref).for_each(dtype, [&](const auto& glu_fwd, const auto& glu_bwd) {
          GuardedBuffer y("y", dtype, T * F), d_x("d_x", dtype, 2 * T * F);
          run_with_one_and_two_threads({&y, &d_x}, [&] {
            glu_fwd({x.view(), y.view(), T, F, activation});
            glu_bwd({x.view(), d_y.view(), d_x.view(), T, F, activation});
          });
          EXPECT_TRUE(compare(y, want_y, limit_of(y_bounds, Zeros::kExpected)).ok())
              << activation_name(activation) << " "
              << compare(y, want_y, limit_of(y_bounds, Zeros::kExpected));
          EXPECT_TRUE(compare(d_x, want_d_x, limit_of(d_x_bounds, Zeros::kExpected)).ok())
              << activation_name(activation) << " "
              << compare(d_x, want_d_x, limit_of(d_x_bounds, Zeros::kExpected));
          GuardedBuffer in_place("in place", dtype, 2 * T * F);
          in_place.assign(x.to_doubles());
          glu_bwd({in_place.view(), d_y.view(), in_place.view(), T, F, activation});
          EXPECT_TRUE(compare_bits(in_place, d_x).ok());
        });
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, static_cast<int>(2 * (kernel_shapes().size() + 2 * (std::size(kActivations) - 1))));
}

TEST(Glu, BackwardIsTheDerivative) {
  constexpr int64_t T = 3, F = 5;
  for (const Activation activation : kActivations) {
    GuardedBuffer x("x", DType::kF64, 2 * T * F), weights("weights", DType::kF64, T * F);
    GuardedBuffer y("y", DType::kF64, T * F), d_x("d_x", DType::kF64, 2 * T * F);
    x.fill_normal();
    weights.fill_normal();
    glu_bwd_ref({x.view(), weights.view(), d_x.view(), T, F, activation});
    expect_gradient(x, d_x, [&] {
      glu_fwd_ref({x.view(), y.view(), T, F, activation});
      return weighted_sum(weights, y);
    });
  }
}

TEST(Glu, MultipliesTheSecondHalfByTheActivatedFirst) {
  GuardedBuffer x("x", DType::kF32, 4), y("y", DType::kF32, 2);
  x.assign(std::vector<double>{1.0, -2.0, 3.0, 5.0});
  glu_fwd_cpu({x.view(), y.view(), 1, 2, Activation::kSilu});
  EXPECT_NEAR(y.load(0), 3.0 / (1.0 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(y.load(1), -10.0 / (1.0 + std::exp(2.0)), 1e-6);
}

}  // namespace
}  // namespace plimsoll::test
