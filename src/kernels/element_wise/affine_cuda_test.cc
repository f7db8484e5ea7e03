// Tests the kernels with operands per column and sums over rows: bias + GELU, and gain and bias.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/element_wise/add.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/element_wise/testing/cuda_cases.h"

namespace plimsoll::test {
namespace {

// Returns every 4093rd fp32 number with a magnitude below 1e37, and 300,000 numbers around 0: more than a million numbers in total.
GuardedBuffer the_whole_range() {
  std::vector<double> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(value) && std::abs(value) < 1e37f) values.push_back(static_cast<double>(value));
  }
  for (int i = 0; i < 300000; ++i)
    values.push_back(static_cast<double>(static_cast<float>(i - 150000) * 1e-4f));
  GuardedBuffer x("x", DType::kF32, static_cast<int64_t>(values.size()));
  x.assign(values);
  return x;
}

TEST(GeluCuda, StaysWithinItsBoundsOverTheWholeRange) {
  GuardedBuffer x = the_whole_range();
  ASSERT_GT(x.count(), 1000000);
  GuardedBuffer d_y("d_y", DType::kF32, x.count());
  d_y.fill(1.0);
  for (const Activation activation : kActivations) {
    GuardedBuffer want("want", DType::kF64, x.count()), want_slope("want slope", DType::kF64, x.count());
    gelu_fwd_ref({x.view(), want.view(), x.count(), activation});
    gelu_bwd_ref({x.view(), d_y.view(), want_slope.view(), x.count(), activation});
    std::vector<double> bounds, slope_bounds;
    for (int64_t i = 0; i < x.count(); ++i) {
      bounds.push_back(gelu_fwd_error_bound(x.load(i), activation, DType::kF32));
      slope_bounds.push_back(gelu_bwd_error_bound(x.load(i), 1.0, activation, DType::kF32));
    }
    GuardedBuffer y("y", DType::kF32, x.count()), d_x("d_x", DType::kF32, x.count());
    Twins gpu;
    gelu_fwd_cuda({gpu(x), gpu(y), x.count(), activation}, nullptr);
    gelu_bwd_cuda({gpu(x), gpu(d_y), gpu(d_x), x.count(), activation}, nullptr);
    gpu.download();
    expect_within(y, want, bounds);
    expect_within(d_x, want_slope, slope_bounds);
  }
}

TEST(GeluCuda, SixteenBitTypesStayWithinTheirBoundsForEveryNumber) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    GuardedBuffer x("x", dtype, 65536), d_y("d_y", dtype, 65536);
    for (int64_t i = 0; i < 65536; ++i) {
      static_cast<uint16_t*>(x.view().data)[i] = static_cast<uint16_t>(i);
      // Inputs whose results would overflow are replaced by zero, because infinite results cannot be compared.
      if (!std::isfinite(x.load(i)) || std::abs(x.load(i)) > 1e37) x.view().store(i, 0.0);
    }
    d_y.fill(1.0);
    for (const Activation activation : kActivations) {
      GuardedBuffer want("want", DType::kF64, 65536), want_slope("want slope", DType::kF64, 65536),
          y("y", dtype, 65536), d_x("d_x", dtype, 65536);
      gelu_fwd_ref({x.view(), want.view(), 65536, activation});
      gelu_bwd_ref({x.view(), d_y.view(), want_slope.view(), 65536, activation});
      std::vector<double> bounds, slope_bounds;
      for (int64_t i = 0; i < 65536; ++i) {
        bounds.push_back(gelu_fwd_cuda_error_bound(x.load(i), activation, dtype));
        slope_bounds.push_back(gelu_bwd_cuda_error_bound(x.load(i), 1.0, activation, dtype, dtype));
      }
      Twins gpu;
      run_twice(gpu, {&y, &d_x}, [&] {
        gelu_fwd_cuda({gpu(x), gpu(y), 65536, activation}, nullptr);
        gelu_bwd_cuda({gpu(x), gpu(d_y), gpu(d_x), 65536, activation}, nullptr);
      });
      expect_within(y, want, bounds);
      expect_within(d_x, want_slope, slope_bounds);
    }
  }
}

bool maps_to_finite(double infinity, Activation activation) {
  return activation == Activation::kTanh || (activation == Activation::kRelu && infinity < 0.0);
}

TEST(GeluCuda, NonFiniteInputsStayVisible) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  GuardedBuffer x("x", DType::kF32, 3), one("one", DType::kF32, 3);
  x.assign(std::vector<double>{std::nan(""), kInf, -kInf});
  one.fill(1.0);
  for (const Activation activation : kActivations) {
    GuardedBuffer y("y", DType::kF32, 3), d_x("d_x", DType::kF32, 3);
    Twins gpu;
    gelu_fwd_cuda({gpu(x), gpu(y), 3, activation}, nullptr);
    gelu_bwd_cuda({gpu(x), gpu(one), gpu(d_x), 3, activation}, nullptr);
    gpu.download();
    EXPECT_TRUE(std::isnan(y.load(0)));
    for (int64_t i = 1; i < 3; ++i)
      EXPECT_EQ(std::isfinite(y.load(i)), maps_to_finite(x.load(i), activation)) << i;
    EXPECT_TRUE(std::isnan(d_x.load(0)));
  }
}

// Error bounds of an activation after a bias was added. The sum is rounded once; the slope of every activation is at most 1.13, and the
// slope of its derivative is below 1.
double bias_gelu_fwd_bound(double sum, Activation activation, DType dtype) {
  return gelu_fwd_cuda_error_bound(sum, activation, dtype) + 1.13 * kRoundoffF32 * std::abs(sum);
}
double bias_gelu_bwd_bound(double sum, double d_y, Activation activation, DType dtype, DType stored) {
  return gelu_bwd_cuda_error_bound(sum, d_y, activation, dtype, stored) +
         std::abs(d_y) * kRoundoffF32 * std::abs(sum);
}

struct BiasGeluCase {
  RowsAndColumns shape;
  DType dtype, parameters;
  Activation activation;
  bool adds;
};

void check_bias_gelu(const BiasGeluCase& test) {
  const auto [shape, dtype, parameters, activation, adds] = test;
  const auto columns = static_cast<size_t>(shape.C);
  GuardedBuffer h(tensor_name("h", shape, dtype), dtype, shape.size()),
      d_y(tensor_name("d_y", shape, dtype), dtype, shape.size()),
      b(tensor_name("b", shape, parameters), parameters, shape.C),
      before(tensor_name("before", shape, dtype), DType::kF32, shape.C),
      flag = integers(DType::kI32, {adds ? 1 : 0}),
      scratch = scratch_of(bias_gelu_bwd_cuda_scratch_bytes(shape.T, shape.C));
  h.fill_normal();
  d_y.fill_normal();
  b.fill_normal();
  before.fill_normal();
  GuardedBuffer want_y("want y", DType::kF64, shape.size()), want_d_h("want d_h", DType::kF64, shape.size()),
      want_d_b("want d_b", DType::kF64, shape.C);
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
                     adds ? Accumulate::kAdd : Accumulate::kOverwrite});
  std::vector<double> y_bounds, d_h_bounds, d_b_bounds, magnitudes(columns), errors(columns);
  for (int64_t i = 0; i < shape.size(); ++i) {
    const auto c = static_cast<size_t>(i % shape.C);
    const double sum = h.load(i) + b.load(i % shape.C);
    y_bounds.push_back(bias_gelu_fwd_bound(sum, activation, dtype));
    d_h_bounds.push_back(bias_gelu_bwd_bound(sum, d_y.load(i), activation, dtype, dtype));
    magnitudes[c] += std::abs(want_d_h.load(i));
    errors[c] += bias_gelu_bwd_bound(sum, d_y.load(i), activation, dtype, DType::kF32);
  }
  for (size_t c = 0; c < columns; ++c) {
    const double held = std::abs(before.load(static_cast<int64_t>(c)));
    d_b_bounds.push_back(
        column_sum_cuda_error_bound(shape.T, shape.C, magnitudes[c] + held, errors[c], 0.0, DType::kF32));
  }
  GuardedBuffer y("y", dtype, shape.size()), d_h("d_h", dtype, shape.size()),
      d_b("d_b", DType::kF32, shape.C);
  if (adds) d_b.assign(before.to_doubles());
  Twins gpu;
  const auto run = [&](View into, View sum) {
    bias_gelu_bwd_cuda({gpu(h), gpu(b), gpu(d_y), into, sum, gpu(scratch), shape.T, shape.C, activation},
                       gpu(flag).as<int32_t>(), nullptr);
  };
  run_twice(gpu, {&y, &d_h, &d_b}, [&] {
    bias_gelu_fwd_cuda({gpu(h), gpu(b), gpu(y), shape.T, shape.C, activation}, nullptr);
    run(gpu(d_h), gpu(d_b));
  });
  // ReLU maps half of the elements to zero, so zeros are expected in its results.
  const Zeros zeros = activation == Activation::kRelu ? Zeros::kExpected : Zeros::kSuspicious;
  expect_within(y, want_y, y_bounds, zeros);
  expect_within(d_h, want_d_h, d_h_bounds, zeros);
  expect_within(d_b, want_d_b, d_b_bounds);
  run(gpu(d_y), gpu(d_b));  // computes the gradient in place: d_h overwrites d_y
  gpu.download();
  expect_same_bits(d_y, d_h);
}

TEST(BiasGeluCuda, AgreesWithTheReference) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      check_bias_gelu({shape, dtype, DType::kF32, Activation::kGelu, true});
      check_bias_gelu({shape, dtype, dtype, Activation::kGelu, false});
    }
    for (const Activation activation : kActivations)
      check_bias_gelu({shape, DType::kF32, DType::kF32, activation, false});
  }
}

// Runs only a few small cases per kernel, because this test is for sanitizers, which make every allocation slow.
TEST(BiasGeluCudaSmall, AgreesWithTheReference) {
  for (const DType dtype : cuda_types()) {
    check_bias_gelu({{70, 384}, dtype, DType::kF32, Activation::kGelu, true});
    for (const Activation activation : kActivations)
      check_bias_gelu({{70, 17}, dtype, dtype, activation, false});
  }
}

struct ScaleShiftCase {
  RowsAndColumns shape;
  DType dtype, parameters;
  bool adds;
  bool has_bias = true;
};

void check_scale_shift(const ScaleShiftCase& test) {
  const auto [shape, dtype, parameters, adds, has_bias] = test;
  const auto if_present = [&](const View& view) { return test.has_bias ? view : View{}; };
  const auto columns = static_cast<size_t>(shape.C);
  GuardedBuffer x_hat(tensor_name("x_hat", shape, dtype), dtype, shape.size()),
      d_y(tensor_name("d_y", shape, dtype), dtype, shape.size()),
      gain(tensor_name("gain", shape, parameters), parameters, shape.C),
      bias(tensor_name("bias", shape, parameters), parameters, shape.C),
      before(tensor_name("before", shape, dtype), DType::kF32, shape.C),
      flag = integers(DType::kI32, {adds ? 1 : 0}),
      scratch = scratch_of(scale_shift_bwd_cuda_scratch_bytes(shape.T, shape.C));
  for (GuardedBuffer* buffer : {&x_hat, &d_y, &gain, &bias, &before}) buffer->fill_normal();
  GuardedBuffer want_y("want y", DType::kF64, shape.size()), want_d_x("want d_x", DType::kF64, shape.size()),
      want_gain("want gain", DType::kF64, shape.C), want_bias("want bias", DType::kF64, shape.C);
  want_gain.assign(before.to_doubles());
  want_bias.assign(before.to_doubles());
  scale_shift_fwd_ref({x_hat.view(), gain.view(), if_present(bias.view()), want_y.view(), shape.T, shape.C});
  scale_shift_bwd_ref({d_y.view(),
                       x_hat.view(),
                       gain.view(),
                       want_d_x.view(),
                       want_gain.view(),
                       if_present(want_bias.view()),
                       {},
                       shape.T,
                       shape.C,
                       adds ? Accumulate::kAdd : Accumulate::kOverwrite});
  std::vector<double> y_bounds, d_x_bounds, gain_bounds, bias_bounds, of_gain(columns), of_bias(columns);
  for (int64_t i = 0; i < shape.size(); ++i) {
    const auto c = static_cast<size_t>(i % shape.C);
    y_bounds.push_back(
        scale_shift_fwd_error_bound(x_hat.load(i) * gain.load(i % shape.C), want_y.load(i), dtype));
    d_x_bounds.push_back(add_fwd_error_bound(want_d_x.load(i), dtype));
    of_gain[c] += std::abs(d_y.load(i) * x_hat.load(i));
    of_bias[c] += std::abs(d_y.load(i));
  }
  for (size_t c = 0; c < columns; ++c) {
    const double held = std::abs(before.load(static_cast<int64_t>(c)));
    gain_bounds.push_back(column_sum_cuda_error_bound(shape.T, shape.C, of_gain[c] + held,
                                                      kRoundoffF32 * of_gain[c], 0.0, DType::kF32));
    bias_bounds.push_back(
        column_sum_cuda_error_bound(shape.T, shape.C, of_bias[c] + held, 0.0, 0.0, DType::kF32));
  }
  GuardedBuffer y("y", dtype, shape.size()), d_x("d_x", dtype, shape.size()),
      d_gain("d_gain", DType::kF32, shape.C), d_bias("d_bias", DType::kF32, shape.C);
  if (adds) d_gain.assign(before.to_doubles());
  if (adds) d_bias.assign(before.to_doubles());
  Twins gpu;
  const auto run = [&](View into) {
    scale_shift_bwd_cuda({gpu(d_y), gpu(x_hat), gpu(gain), into, gpu(d_gain), if_present(gpu(d_bias)),
                          gpu(scratch), shape.T, shape.C},
                         gpu(flag).as<int32_t>(), nullptr);
  };
  std::vector<GuardedBuffer*> outputs{&y, &d_x, &d_gain};
  if (has_bias) outputs.push_back(&d_bias);
  run_twice(gpu, outputs, [&] {
    scale_shift_fwd_cuda({gpu(x_hat), gpu(gain), if_present(gpu(bias)), gpu(y), shape.T, shape.C}, nullptr);
    run(gpu(d_x));
  });
  expect_within(y, want_y, y_bounds);
  expect_within(d_x, want_d_x, d_x_bounds);
  expect_within(d_gain, want_gain, gain_bounds);
  if (has_bias) expect_within(d_bias, want_bias, bias_bounds);
  run(gpu(x_hat));  // computes the gradient in place: d_x_hat overwrites x_hat
  gpu.download();
  expect_same_bits(x_hat, d_x);
}

TEST(ScaleShiftCuda, AgreesWithTheReference) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    for (const DType dtype : cuda_types()) {
      check_scale_shift({shape, dtype, DType::kF32, true});
      check_scale_shift({shape, dtype, dtype, false});
      check_scale_shift({shape, dtype, dtype, false, false});
    }
  }
}

// Runs only a few small cases per kernel, because this test is for sanitizers, which make every allocation slow.
TEST(ScaleShiftCudaSmall, AgreesWithTheReference) {
  for (const DType dtype : cuda_types()) {
    check_scale_shift({{70, 384}, dtype, DType::kF32, true});
    check_scale_shift({{70, 17}, dtype, dtype, false});
    check_scale_shift({{70, 384}, dtype, DType::kF32, true, false});
  }
}

TEST(GluCuda, IsWithinItsBoundsOfTheReference) {
  for (const RowsAndColumns shape : cuda_shapes()) {
    const auto [T, F] = shape;
    for (const DType dtype : cuda_types()) {
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, 2 * T * F);
      GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, T * F);
      x.fill_normal(0.2, 2.0);
      d_y.fill_normal();
      for (const Activation activation : kActivations) {
        GuardedBuffer want_y("want y", DType::kF64, T * F), want_d_x("want d_x", DType::kF64, 2 * T * F);
        glu_fwd_ref({x.view(), want_y.view(), T, F, activation});
        glu_bwd_ref({x.view(), d_y.view(), want_d_x.view(), T, F, activation});
        std::vector<double> y_bounds, d_x_bounds(static_cast<size_t>(2 * T * F));
        for (int64_t at = 0; at < T * F; ++at) {
          const int64_t gate_at = at / F * 2 * F + at % F;
          const double gate = x.load(gate_at), up = x.load(gate_at + F), g = d_y.load(at);
          y_bounds.push_back(glu_fwd_cuda_error_bound(gate, up, activation, dtype, dtype));
          d_x_bounds[static_cast<size_t>(gate_at)] =
              glu_bwd_cuda_error_bound(gate, up, g, activation, dtype, dtype);
          d_x_bounds[static_cast<size_t>(gate_at + F)] =
              glu_fwd_cuda_error_bound(gate, g, activation, dtype, dtype);
        }
        GuardedBuffer y("y", dtype, T * F), d_x("d_x", dtype, 2 * T * F);
        Twins gpu;
        run_twice(gpu, {&y, &d_x}, [&] {
          glu_fwd_cuda({gpu(x), gpu(y), T, F, activation}, nullptr);
          glu_bwd_cuda({gpu(x), gpu(d_y), gpu(d_x), T, F, activation}, nullptr);
        });
        expect_within(y, want_y, y_bounds);
        expect_within(d_x, want_d_x, d_x_bounds);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
