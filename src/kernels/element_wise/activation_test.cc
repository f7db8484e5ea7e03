#include "kernels/element_wise/activation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

TEST(Tanh, StaysWithinItsBoundOverTheWholeRange) {
  std::vector<double> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    // Skips denormal numbers, because whether they are flushed to zero depends on the mode of the thread.
    if (std::isnormal(value)) values.push_back(static_cast<double>(value));
  }
  for (int i = 0; i < 400000; ++i)
    values.push_back(static_cast<double>(static_cast<float>(i - 200000) * 5e-5f));
  GuardedBuffer x("x", DType::kF32, static_cast<int64_t>(values.size()));
  x.assign(values);
  ASSERT_GT(x.count(), 1000000);
  GuardedBuffer want("want", DType::kF64, x.count());
  tanh_fwd_ref({x.view(), want.view(), x.count()});
  std::vector<double> bounds;
  for (int64_t i = 0; i < x.count(); ++i) bounds.push_back(tanh_fwd_error_bound(want.load(i), DType::kF32));
  FastRows(tanh_fwd_ref).for_each(DType::kF32, [&](const auto& tanh_fwd) {
    GuardedBuffer y("y", DType::kF32, x.count());
    tanh_fwd({x.view(), y.view(), x.count()});
    const Comparison result = compare(y, want, limit_of(bounds));
    EXPECT_TRUE(result.ok()) << result << " at x = " << x.load(std::max<int64_t>(0, result.worst_index));
  });
}

TEST(Tanh, NaNGivesNaNAndInfinityGivesOne) {
  GuardedBuffer x("x", DType::kF32, 3);
  x.assign(std::vector<double>{std::nan(""), HUGE_VAL, -HUGE_VAL});
  for_each_simd_target([&] {
    GuardedBuffer y("y", DType::kF32, 3);
    tanh_fwd_cpu({x.view(), y.view(), 3});
    EXPECT_TRUE(std::isnan(y.load(0)));
    EXPECT_EQ(y.load(1), 1.0);
    EXPECT_EQ(y.load(2), -1.0);
    relu_fwd_cpu({x.view(), y.view(), 3});
    EXPECT_TRUE(std::isnan(y.load(0)));
    EXPECT_EQ(y.load(1), HUGE_VAL);
    EXPECT_EQ(y.load(2), 0.0);
  });
}

TEST(Activations, AgreeWithTheReferences) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      const int64_t n = shape.size();
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, n);
      GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, n);
      x.fill_normal();
      d_y.fill_normal();
      GuardedBuffer want_tanh("want tanh", DType::kF64, n);
      GuardedBuffer want_relu("want relu", DType::kF64, n);
      // The gradient formulas hold for any output y, so the test uses x as y.
      GuardedBuffer want_d_tanh("want d_tanh", DType::kF64, n);
      GuardedBuffer want_d_relu("want d_relu", DType::kF64, n);
      tanh_fwd_ref({x.view(), want_tanh.view(), n});
      relu_fwd_ref({x.view(), want_relu.view(), n});
      tanh_bwd_ref({x.view(), d_y.view(), want_d_tanh.view(), n});
      relu_bwd_ref({x.view(), d_y.view(), want_d_relu.view(), n});
      std::vector<double> tanh_bounds, d_tanh_bounds;
      for (int64_t i = 0; i < n; ++i) {
        tanh_bounds.push_back(tanh_fwd_error_bound(want_tanh.load(i), dtype));
        const double y_squared = x.load(i) * x.load(i);
        d_tanh_bounds.push_back(tanh_bwd_error_bound(x.load(i), d_y.load(i) * (1.0 + y_squared), dtype));
      }
      FastRows(tanh_fwd_ref, relu_fwd_ref, tanh_bwd_ref, relu_bwd_ref)
          .for_each(dtype, [&](const auto& tanh_fwd, const auto& relu_fwd, const auto& tanh_bwd,
                               const auto& relu_bwd) {
            GuardedBuffer y("tanh", dtype, n), relu("relu", dtype, n), d_tanh("d_tanh", dtype, n),
                d_relu("d_relu", dtype, n);
            run_with_one_and_two_threads({&y, &relu, &d_tanh, &d_relu}, [&] {
              tanh_fwd({x.view(), y.view(), n});
              relu_fwd({x.view(), relu.view(), n});
              tanh_bwd({x.view(), d_y.view(), d_tanh.view(), n});
              relu_bwd({x.view(), d_y.view(), d_relu.view(), n});
            });
            EXPECT_TRUE(compare(y, want_tanh, limit_of(tanh_bounds)).ok())
                << compare(y, want_tanh, limit_of(tanh_bounds));
            EXPECT_TRUE(compare(d_tanh, want_d_tanh, limit_of(d_tanh_bounds)).ok())
                << compare(d_tanh, want_d_tanh, limit_of(d_tanh_bounds));
            const Limit exact{.zeros = Zeros::kExpected};
            EXPECT_TRUE(compare(relu, want_relu, exact).ok()) << compare(relu, want_relu, exact);
            EXPECT_TRUE(compare(d_relu, want_d_relu, exact).ok()) << compare(d_relu, want_d_relu, exact);
          });
    }
  }
}

TEST(Activations, GradientsAreTheDerivatives) {
  const RowsAndColumns shape{4, 5};
  const int64_t n = shape.size();
  GuardedBuffer x(tensor_name("x", shape, DType::kF64), DType::kF64, n);
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, n);
  x.fill_normal();
  weights.fill_normal();
  GuardedBuffer y("y", DType::kF64, n), d_x("d_x", DType::kF64, n);
  tanh_fwd_ref({x.view(), y.view(), n});
  tanh_bwd_ref({y.view(), weights.view(), d_x.view(), n});
  expect_gradient(x, d_x, [&] {
    tanh_fwd_ref({x.view(), y.view(), n});
    return weighted_sum(weights, y);
  });
  // Moves inputs away from 0, where ReLU has no derivative.
  for (int64_t i = 0; i < n; ++i) {
    if (std::abs(x.load(i)) < 0.01) x.view().store(i, 0.5);
  }
  relu_fwd_ref({x.view(), y.view(), n});
  relu_bwd_ref({y.view(), weights.view(), d_x.view(), n});
  expect_gradient(x, d_x, [&] {
    relu_fwd_ref({x.view(), y.view(), n});
    return weighted_sum(weights, y);
  });
}

}  // namespace
}  // namespace plimsoll::test
