#include "kernels/element_wise/scale_shift.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

struct ScaleShiftCase {
  RowsAndColumns shape;
  DType dtype, parameters;
  Accumulate accumulate;
  bool has_bias = true;
};

void check_forward(const ScaleShiftCase& test) {
  const auto [shape, dtype, parameters, accumulate, has_bias] = test;
  const auto if_present = [&](const View& view) { return test.has_bias ? view : View{}; };
  GuardedBuffer x_hat(tensor_name("x_hat", shape, dtype), dtype, shape.size());
  GuardedBuffer gain(tensor_name("gain", shape, parameters), parameters, shape.C);
  GuardedBuffer bias(tensor_name("bias", shape, parameters), parameters, shape.C);
  x_hat.fill_normal();
  gain.fill_normal(1.0, 0.2);
  bias.fill_normal();
  GuardedBuffer want("want", DType::kF64, shape.size());
  scale_shift_fwd_ref({x_hat.view(), gain.view(), if_present(bias.view()), want.view(), shape.T, shape.C});
  std::vector<double> bounds;
  for (int64_t i = 0; i < shape.size(); ++i) {
    bounds.push_back(
        scale_shift_fwd_error_bound(x_hat.load(i) * gain.load(i % shape.C), want.load(i), dtype));
  }
  FastRows(scale_shift_fwd_ref)
      .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& scale_shift_fwd) {
        GuardedBuffer y("y", dtype, shape.size());
        run_with_one_and_two_threads({&y}, [&] {
          scale_shift_fwd({x_hat.view(), gain.view(), if_present(bias.view()), y.view(), shape.T, shape.C});
        });
        EXPECT_TRUE(compare(y, want, limit_of(bounds)).ok()) << compare(y, want, limit_of(bounds));
      });
}

void check_backward(const ScaleShiftCase& test) {
  const auto [shape, dtype, parameters, accumulate, has_bias] = test;
  const auto if_present = [&](const View& view) { return test.has_bias ? view : View{}; };
  GuardedBuffer d_y(tensor_name("d_y", shape, dtype), dtype, shape.size());
  GuardedBuffer x_hat(tensor_name("x_hat", shape, dtype), dtype, shape.size());
  GuardedBuffer gain(tensor_name("gain", shape, parameters), parameters, shape.C);
  GuardedBuffer before(tensor_name("before", shape, dtype), DType::kF32, shape.C);
  d_y.fill_normal();
  x_hat.fill_normal();
  gain.fill_normal(1.0, 0.2);
  before.fill_normal();
  GuardedBuffer want_d_x_hat("want d_x_hat", DType::kF64, shape.size());
  GuardedBuffer want_d_gain("want d_gain", DType::kF64, shape.C),
      want_d_bias("want d_bias", DType::kF64, shape.C);
  want_d_gain.assign(before.to_doubles());
  want_d_bias.assign(before.to_doubles());
  scale_shift_bwd_ref({d_y.view(),
                       x_hat.view(),
                       gain.view(),
                       want_d_x_hat.view(),
                       want_d_gain.view(),
                       if_present(want_d_bias.view()),
                       {},
                       shape.T,
                       shape.C,
                       accumulate});
  std::vector<double> d_x_hat_bounds, gain_magnitudes(static_cast<size_t>(shape.C), 0.0),
      bias_magnitudes = gain_magnitudes;
  for (int64_t i = 0; i < shape.size(); ++i) {
    d_x_hat_bounds.push_back(add_fwd_error_bound(want_d_x_hat.load(i), dtype));
    gain_magnitudes[static_cast<size_t>(i % shape.C)] += std::abs(d_y.load(i) * x_hat.load(i));
    bias_magnitudes[static_cast<size_t>(i % shape.C)] += std::abs(d_y.load(i));
  }
  std::vector<double> gain_bounds, bias_bounds;
  for (int64_t c = 0; c < shape.C; ++c) {
    const double held = std::abs(before.load(c));
    const double products = gain_magnitudes[static_cast<size_t>(c)];
    gain_bounds.push_back(column_sum_error_bound(shape.T, shape.C, products + held, kRoundoffF32 * products,
                                                 want_d_gain.load(c), DType::kF32));
    bias_bounds.push_back(column_sum_error_bound(shape.T, shape.C,
                                                 bias_magnitudes[static_cast<size_t>(c)] + held, 0.0,
                                                 want_d_bias.load(c), DType::kF32));
  }
  FastRows(scale_shift_bwd_ref)
      .for_each(dtype, RowsProblem{.rows = shape.T, .columns = shape.C}, [&](const auto& scale_shift_bwd) {
        GuardedBuffer d_x_hat("d_x_hat", dtype, shape.size());
        GuardedBuffer d_gain("d_gain", DType::kF32, shape.C), d_bias("d_bias", DType::kF32, shape.C);
        if (accumulate == Accumulate::kAdd) {
          d_gain.assign(before.to_doubles());
          d_bias.assign(before.to_doubles());
        }
        GuardedBuffer scratch = scratch_of(scale_shift_bwd.scratch_bytes());
        std::vector<GuardedBuffer*> outputs{&d_x_hat, &d_gain};
        if (has_bias) outputs.push_back(&d_bias);
        run_with_one_and_two_threads(outputs, [&] {
          scale_shift_bwd({d_y.view(), x_hat.view(), gain.view(), d_x_hat.view(), d_gain.view(),
                           if_present(d_bias.view()), scratch.view(), shape.T, shape.C, accumulate});
        });
        EXPECT_TRUE(compare(d_x_hat, want_d_x_hat, limit_of(d_x_hat_bounds)).ok())
            << compare(d_x_hat, want_d_x_hat, limit_of(d_x_hat_bounds));
        EXPECT_TRUE(compare(d_gain, want_d_gain, limit_of(gain_bounds)).ok())
            << compare(d_gain, want_d_gain, limit_of(gain_bounds));
        if (has_bias) {
          EXPECT_TRUE(compare(d_bias, want_d_bias, limit_of(bias_bounds)).ok())
              << compare(d_bias, want_d_bias, limit_of(bias_bounds));
        }
        EXPECT_EQ(scratch.broken_guard(), GuardedBuffer::kIntact);
      });
}

TEST(ScaleShift, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      for (const DType parameters : fast_types())
        check_forward({shape, dtype, parameters, Accumulate::kOverwrite});
      check_backward({shape, dtype, DType::kF32, Accumulate::kAdd});
      check_forward({shape, dtype, DType::kF32, Accumulate::kOverwrite, false});
      check_backward({shape, dtype, DType::kF32, Accumulate::kAdd, false});
    }
  }
  check_backward({{33, 384}, DType::kBF16, DType::kBF16, Accumulate::kOverwrite});
}

TEST(ScaleShift, GradientsAreTheDerivatives) {
  const RowsAndColumns shape{4, 5};
  GuardedBuffer x_hat(tensor_name("x_hat", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, shape.size());
  GuardedBuffer gain(tensor_name("gain", shape, DType::kF64), DType::kF64, shape.C);
  GuardedBuffer bias(tensor_name("bias", shape, DType::kF64), DType::kF64, shape.C);
  for (GuardedBuffer* tensor : {&x_hat, &weights, &gain, &bias}) tensor->fill_normal();
  GuardedBuffer y("y", DType::kF64, shape.size()), d_x_hat("d_x_hat", DType::kF64, shape.size());
  GuardedBuffer d_gain("d_gain", DType::kF64, shape.C), d_bias("d_bias", DType::kF64, shape.C);
  scale_shift_bwd_ref({weights.view(),
                       x_hat.view(),
                       gain.view(),
                       d_x_hat.view(),
                       d_gain.view(),
                       d_bias.view(),
                       {},
                       shape.T,
                       shape.C});
  const auto loss = [&] {
    scale_shift_fwd_ref({x_hat.view(), gain.view(), bias.view(), y.view(), shape.T, shape.C});
    return weighted_sum(weights, y);
  };
  expect_gradient(x_hat, d_x_hat, loss);
  expect_gradient(gain, d_gain, loss);
  expect_gradient(bias, d_bias, loss);
}

}  // namespace
}  // namespace plimsoll::test
