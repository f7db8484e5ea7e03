#include "kernels/element_wise/gelu.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// ReLU maps half of the elements to zero, so zeros are expected in its results.
Zeros zeros_of(Activation activation) {
  return activation == Activation::kRelu ? Zeros::kExpected : Zeros::kSuspicious;
}

// Returns every 4093rd finite fp32 number of both signs (4093 is a prime, so that all values of the low bits occur), and the numbers around
// the points where the formulas change: more than a million numbers.
GuardedBuffer the_whole_range() {
  std::vector<double> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(value) && std::abs(value) < 1e37f) values.push_back(static_cast<double>(value));
  }
  for (const float edge : {0.0f, 0.7517916f, 12.9f, 13.0f, 15.0f, 9.0f, 10.06f, 1e30f}) {
    for (int step = -100; step <= 100; ++step) {
      const float value = edge + static_cast<float>(step) * 1e-4f;
      values.push_back(static_cast<double>(value));
      values.push_back(static_cast<double>(-value));
    }
  }
  for (int i = 0; i < 300000; ++i)
    values.push_back(static_cast<double>(static_cast<float>(i - 150000) * 1e-4f));
  GuardedBuffer x("x", DType::kF32, static_cast<int64_t>(values.size()));
  x.assign(values);
  return x;
}

TEST(Gelu, StaysWithinItsBoundOverTheWholeRange) {
  const GuardedBuffer x = the_whole_range();
  ASSERT_GT(x.count(), 1000000);
  for (const Activation activation : kActivations) {
    GuardedBuffer want("want", DType::kF64, x.count());
    gelu_fwd_ref({x.view(), want.view(), x.count(), activation});
    std::vector<double> bounds;
    for (int64_t i = 0; i < x.count(); ++i)
      bounds.push_back(gelu_fwd_error_bound(x.load(i), activation, DType::kF32));
    FastRows(gelu_fwd_ref).for_each(DType::kF32, [&](const auto& gelu_fwd) {
      GuardedBuffer y("y", DType::kF32, x.count());
      gelu_fwd({x.view(), y.view(), x.count(), activation});
      const Comparison result = compare(y, want, limit_of(bounds, Zeros::kExpected));
      EXPECT_TRUE(result.ok()) << result << " at x = " << x.load(std::max<int64_t>(0, result.worst_index));
    });
  }
}

TEST(Gelu, SlopeStaysWithinItsBoundOverTheWholeRange) {
  const GuardedBuffer x = the_whole_range();
  GuardedBuffer d_y("d_y", DType::kF32, x.count());
  d_y.fill(1.0);
  for (const Activation activation : kActivations) {
    GuardedBuffer want("want", DType::kF64, x.count());
    gelu_bwd_ref({x.view(), d_y.view(), want.view(), x.count(), activation});
    std::vector<double> bounds;
    for (int64_t i = 0; i < x.count(); ++i)
      bounds.push_back(gelu_bwd_error_bound(x.load(i), 1.0, activation, DType::kF32));
    FastRows(gelu_bwd_ref).for_each(DType::kF32, [&](const auto& gelu_bwd) {
      GuardedBuffer d_x("d_x", DType::kF32, x.count());
      gelu_bwd({x.view(), d_y.view(), d_x.view(), x.count(), activation});
      const Comparison result = compare(d_x, want, limit_of(bounds, Zeros::kExpected));
      EXPECT_TRUE(result.ok()) << result << " at x = " << x.load(std::max<int64_t>(0, result.worst_index));
    });
  }
}

// Returns true if the activation maps this infinity to a finite number.
bool maps_to_finite(double infinity, Activation activation) {
  return activation == Activation::kTanh || (activation == Activation::kRelu && infinity < 0.0);
}

TEST(Gelu, NonFiniteInputsStayVisible) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  GuardedBuffer x("x", DType::kF32, 3);
  x.assign(std::vector<double>{std::nan(""), kInf, -kInf});
  GuardedBuffer one("one", DType::kF32, 3);
  one.fill(1.0);
  for_each_simd_target([&] {
    for (const Activation activation : kActivations) {
      GuardedBuffer y("y", DType::kF32, 3);
      gelu_fwd_cpu({x.view(), y.view(), 3, activation});
      EXPECT_TRUE(std::isnan(y.load(0)));
      for (int64_t i = 1; i < 3; ++i)
        EXPECT_EQ(std::isfinite(y.load(i)), maps_to_finite(x.load(i), activation)) << i;
      gelu_bwd_cpu({x.view(), one.view(), y.view(), 3, activation});
      EXPECT_TRUE(std::isnan(y.load(0)));
    }
  });
}

// Error bounds of an activation after a bias was added. The sum is rounded once; the slope of an activation is at most 1.13, and the slope
// of its derivative is below 1.
double bias_gelu_fwd_bound(double sum, Activation activation, DType dtype) {
  return gelu_fwd_error_bound(sum, activation, dtype) + 1.13 * kRoundoffF32 * std::abs(sum);
}
double bias_gelu_bwd_bound(double sum, double d_y, Activation activation, DType dtype) {
  return gelu_bwd_error_bound(sum, d_y, activation, dtype) + std::abs(d_y) * kRoundoffF32 * std::abs(sum);
}

TEST(Gelu, FlatKernelsAgreeWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      const int64_t n = shape.size();
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, n);
      GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, n);
      x.fill_normal(0.0, 2.0);
      d_y.fill_normal();
      for (const Activation activation : kActivations) {
        GuardedBuffer want_y("want y", DType::kF64, n);
        GuardedBuffer want_d_x("want d_x", DType::kF64, n);
        gelu_fwd_ref({x.view(), want_y.view(), n, activation});
        gelu_bwd_ref({x.view(), d_y.view(), want_d_x.view(), n, activation});
        std::vector<double> y_bounds, d_x_bounds;
        for (int64_t i = 0; i < n; ++i) {
          y_bounds.push_back(gelu_fwd_error_bound(x.load(i), activation, dtype));
          d_x_bounds.push_back(gelu_bwd_error_bound(x.load(i), d_y.load(i), activation, dtype));
        }
        FastRows(gelu_fwd_ref, gelu_bwd_ref).for_each(dtype, [&](const auto& gelu_fwd, const auto& gelu_bwd) {
          GuardedBuffer y("y", dtype, n);
          GuardedBuffer d_x("d_x", dtype, n);
          run_with_one_and_two_threads({&y, &d_x}, [&] {
            gelu_fwd({x.view(), y.view(), n, activation});
            gelu_bwd({x.view(), d_y.view(), d_x.view(), n, activation});
          });
          EXPECT_TRUE(compare(y, want_y, limit_of(y_bounds, zeros_of(activation))).ok())
              << compare(y, want_y, limit_of(y_bounds, zeros_of(activation)));
          EXPECT_TRUE(compare(d_x, want_d_x, limit_of(d_x_bounds, zeros_of(activation))).ok())
              << compare(d_x, want_d_x, limit_of(d_x_bounds, zeros_of(activation)));
        });
      }
    }
  }
}

struct BiasGeluCase {
  RowsAndColumns shape;
  DType dtype, parameters;
  Activation activation;
  Accumulate accumulate;
};

void check_bias_gelu(const BiasGeluCase& test) {
  const auto [shape, dtype, parameters, activation, accumulate] = test;
  GuardedBuffer h(tensor_name("h", shape, dtype), dtype, shape.size());
  GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, shape.size());
  GuardedBuffer b(tensor_name("b", shape, parameters), parameters, shape.C);
  GuardedBuffer before(tensor_name("before", shape, dtype), DType::kF32, shape.C);
  h.fill_normal();
  d_y.fill_normal();
  b.fill_normal();
  before.fill_normal();
  GuardedBuffer want_y("want y", DType::kF64, shape.size());
  GuardedBuffer want_d_h("want d_h", DType::kF64, shape.size());
  GuardedBuffer want_d_b("want d_b", DType::kF64, shape.C);
  want_d_b.assign(before.to_doubles());
  bias_gelu_fwd_ref({h.view(), b.view(), want_y.view(), shape.T, shape.C, activation});
  bias_gelu_bwd_ref({h.view(),
                     b.view(),
                     d_y.view(),
                     want_d_h.view(),
                     want_d_b.view(),
                     {},
                     shape.T,
                     shape.C,
                     activation,
                     accumulate});
  std::vector<double> y_bounds, d_h_bounds, d_b_bounds;
  std::vector<double> magnitudes(static_cast<size_t>(shape.C), 0.0),
      errors(static_cast<size_t>(shape.C), 0.0);
  for (int64_t i = 0; i < shape.size(); ++i) {
    const double sum = h.load(i) + b.load(i % shape.C);
    y_bounds.push_back(bias_gelu_fwd_bound(sum, activation, dtype));
    d_h_bounds.push_back(bias_gelu_bwd_bound(sum, d_y.load(i), activation, dtype));
    magnitudes[static_cast<size_t>(i % shape.C)] += std::abs(want_d_h.load(i));
    errors[static_cast<size_t>(i % shape.C)] +=
        bias_gelu_bwd_bound(sum, d_y.load(i), activation, DType::kF32);
  }
  for (int64_t c = 0; c < shape.C; ++c) {
    const auto at = static_cast<size_t>(c);
    d_b_bounds.push_back(column_sum_error_bound(shape.T, shape.C, magnitudes[at] + std::abs(before.load(c)),
                                                errors[at], want_d_b.load(c), DType::kF32));
  }
  FastRows(bias_gelu_fwd_ref, bias_gelu_bwd_ref)
      .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C},
                [&](const auto& bias_gelu_fwd, const auto& bias_gelu_bwd) {
                  GuardedBuffer y("y", dtype, shape.size());
                  GuardedBuffer d_h("d_h", dtype, shape.size());
                  GuardedBuffer d_b("d_b", DType::kF32, shape.C);
                  if (accumulate == Accumulate::kAdd) d_b.assign(before.to_doubles());
                  GuardedBuffer scratch = scratch_of(bias_gelu_bwd.scratch_bytes());
                  run_with_one_and_two_threads({&y, &d_h, &d_b}, [&] {
                    bias_gelu_fwd({h.view(), b.view(), y.view(), shape.T, shape.C, activation});
                    bias_gelu_bwd({h.view(), b.view(), d_y.view(), d_h.view(), d_b.view(), scratch.view(),
                                   shape.T, shape.C, activation, accumulate});
                  });
                  EXPECT_TRUE(compare(y, want_y, limit_of(y_bounds, zeros_of(activation))).ok())
                      << compare(y, want_y, limit_of(y_bounds, zeros_of(activation)));
                  EXPECT_TRUE(compare(d_h, want_d_h, limit_of(d_h_bounds, zeros_of(activation))).ok())
                      << compare(d_h, want_d_h, limit_of(d_h_bounds, zeros_of(activation)));
                  EXPECT_TRUE(compare(d_b, want_d_b, limit_of(d_b_bounds)).ok())
                      << compare(d_b, want_d_b, limit_of(d_b_bounds));
                  EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
                  // Computes the gradient in place: d_h overwrites d_y.
                  GuardedBuffer in_place("in place", dtype, shape.size());
                  in_place.assign(d_y.to_doubles());
                  bias_gelu_bwd({h.view(), b.view(), in_place.view(), in_place.view(), d_b.view(),
                                 scratch.view(), shape.T, shape.C, activation, Accumulate::kOverwrite});
                  EXPECT_TRUE(compare_bits(in_place, d_h).ok());
                });
}

TEST(BiasGelu, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types())
      check_bias_gelu({shape, dtype, dtype, Activation::kGelu, Accumulate::kAdd});
  }
  check_bias_gelu({{33, 384}, DType::kBF16, DType::kF32, Activation::kGelu, Accumulate::kOverwrite});
  for (const Activation activation : kActivations) {
    check_bias_gelu({{33, 384}, DType::kF32, DType::kF32, activation, Accumulate::kOverwrite});
    check_bias_gelu({{33, 19}, DType::kBF16, DType::kF32, activation, Accumulate::kAdd});
  }
}

TEST(BiasGelu, RowsWithoutGradientContributeNothing) {
  const RowsAndColumns shape{40, 19};
  GuardedBuffer h(tensor_name("h", shape, DType::kF32), DType::kF32, shape.size());
  GuardedBuffer d_y(tensor_name("d_y", shape, DType::kF32), DType::kF32, shape.size());
  GuardedBuffer b(tensor_name("b", shape, DType::kF32), DType::kF32, shape.C);
  b.fill_normal();
  d_y.fill_normal();
  for (int64_t i = 30 * shape.C; i < shape.size(); ++i) d_y.view().store(i, 0.0);
  for_each_simd_target([&] {
    std::vector<std::vector<double>> sums;
    for (const double tail : {0.0, 3.0, -1e20}) {
      h.fill_normal();
      for (int64_t i = 30 * shape.C; i < shape.size(); ++i) h.view().store(i, tail);
      GuardedBuffer d_h("d_h", DType::kF32, shape.size());
      GuardedBuffer d_b("d_b", DType::kF32, shape.C);
      GuardedBuffer scratch = scratch_of(bias_gelu_bwd_scratch_bytes(shape.T, shape.C));
      bias_gelu_bwd_cpu(
          {h.view(), b.view(), d_y.view(), d_h.view(), d_b.view(), scratch.view(), shape.T, shape.C});
      for (int64_t i = 30 * shape.C; i < shape.size(); ++i) EXPECT_EQ(d_h.load(i), 0.0);
      sums.push_back(d_b.to_doubles());
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], sums[2]);
  });
}

TEST(BiasGelu, GradientsAreTheDerivatives) {
  const RowsAndColumns shape{4, 5};
  GuardedBuffer h(tensor_name("h", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer b(tensor_name("b", shape, DType::kF64), DType::kF64, shape.C);
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, shape.size());
  h.fill_normal();
  b.fill_normal();
  weights.fill_normal();
  for (const Activation activation : kActivations) {
    GuardedBuffer y("y", DType::kF64, shape.size());
    GuardedBuffer d_h("d_h", DType::kF64, shape.size());
    GuardedBuffer d_b("d_b", DType::kF64, shape.C);
    bias_gelu_bwd_ref(
        {h.view(), b.view(), weights.view(), d_h.view(), d_b.view(), {}, shape.T, shape.C, activation});
    const auto loss = [&] {
      bias_gelu_fwd_ref({h.view(), b.view(), y.view(), shape.T, shape.C, activation});
      return weighted_sum(weights, y);
    };
    expect_gradient(h, d_h, loss);
    expect_gradient(b, d_b, loss);
    // Compares the gradient of the activation without a bias with central differences, too.
    GuardedBuffer d_x("d_x", DType::kF64, shape.size());
    gelu_bwd_ref({h.view(), weights.view(), d_x.view(), shape.size(), activation});
    expect_gradient(h, d_x, [&] {
      gelu_fwd_ref({h.view(), y.view(), shape.size(), activation});
      return weighted_sum(weights, y);
    });
  }
}

}  // namespace
}  // namespace plimsoll::test
