// Cases for the tests of the normalization kernels on a CPU and on a GPU: the tensors of a case, and the error bounds of the contract,
// computed from exact values. For tests only. Thread-safe: no state.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/element_wise/add.h"
#include "kernels/element_wise/dropout.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/element_wise/testing/kernel_cases.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"

namespace plimsoll::test {

inline constexpr RandomSite kSite{.seed = 0xfeedfacecafebeefu, .step = 12, .site = 5};
inline constexpr double kEps = 1e-12;

struct NormCase {
  RowsAndColumns shape;
  DType dtype = DType::kF32;
  DType parameters = DType::kF32;
  double p = 0.0;
  bool has_bias = true, has_residual = true, has_d_y2 = true, has_beta = true, has_d_sum_term = false;
  Accumulate accumulate = Accumulate::kOverwrite;
};

struct ForwardTensors {
  GuardedBuffer x, bias, residual, gain, beta;
  BiasDropoutResidualNormFwdArgs args;

  explicit ForwardTensors(const NormCase& test)
      : x(tensor_name("x", test.shape, test.dtype), test.dtype, test.shape.size()),
        bias(tensor_name("bias", test.shape, test.parameters), test.parameters, test.shape.C),
        residual(tensor_name("residual", test.shape, test.dtype), test.dtype, test.shape.size()),
        gain(tensor_name("gain", test.shape, test.parameters), test.parameters, test.shape.C),
        beta(tensor_name("beta", test.shape, test.parameters), test.parameters, test.shape.C) {
    x.fill_normal();
    bias.fill_normal();
    residual.fill_normal();
    gain.fill_normal(1.0, 0.2);
    beta.fill_normal();
    args.x = x.view();
    if (test.has_bias) args.bias = bias.view();
    if (test.has_residual) args.residual = residual.view();
    args.gain = gain.view();
    if (test.has_beta) args.beta = beta.view();
    args.T = test.shape.T;
    args.C = test.shape.C;
    args.eps = kEps;
    args.p = test.p;
    args.where = kSite;
  }
};

struct ForwardBounds {
  std::vector<double> y, x_hat, rstd;
};

// Computes the error bounds of a forward pass from exact values. It computes s in double with the references of bias, dropout and add.
inline ForwardBounds forward_bounds(const NormCase& test, ForwardTensors& tensors, const GuardedBuffer& x_hat,
                                    const GuardedBuffer& y, const GuardedBuffer& rstd) {
  const RowsAndColumns shape = test.shape;
  const double scale = test.p > 0.0 ? static_cast<double>(dropout_scale(test.p)) : 1.0;
  GuardedBuffer branch("branch", DType::kF64, shape.size()), dropped("dropped", DType::kF64, shape.size());
  GuardedBuffer no_bias("no bias", DType::kF64, shape.C);
  no_bias.fill(0.0);
  bias_add_fwd_ref({tensors.x.view(), test.has_bias ? tensors.bias.view() : no_bias.view(), branch.view(),
                    shape.T, shape.C});
  dropout_fwd_ref({branch.view(), dropped.view(), shape.size(), test.p, kSite});
  ForwardBounds bounds;
  for (int64_t t = 0; t < shape.T; ++t) {
    RowMagnitudes row;
    row.rstd = rstd.load(t);
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      const double s = dropped.load(i) + (test.has_residual ? tensors.residual.load(i) : 0.0);
      row.mean_abs += std::abs(s) / static_cast<double>(shape.C);
      row.input_error = std::max(row.input_error, norm_input_error_bound(branch.load(i), scale, s));
    }
    bounds.rstd.push_back(rstd_error_bound(row, shape.C));
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      const double gain = tensors.gain.load(i % shape.C);
      const double exact = normalize_fwd_error_bound(row, x_hat.load(i), shape.C, DType::kF32);
      bounds.x_hat.push_back(exact + store_error_bound(test.dtype, x_hat.load(i)));
      bounds.y.push_back(1.01 * std::abs(gain) * exact +
                         scale_shift_fwd_error_bound(x_hat.load(i) * gain, y.load(i), test.dtype));
    }
  }
  return bounds;
}

struct SumAndBound {
  double sum, bound;
};
// Returns, for each element, s = residual + dropout(x + bias) and the error bound of the stored s.
inline std::vector<SumAndBound> exact_sums(const NormCase& test, const ForwardTensors& tensors) {
  std::vector<SumAndBound> sums;
  for (int64_t i = 0; i < test.shape.size(); ++i) {
    const bool kept =
        test.p == 0.0 || random_half(kSite, static_cast<uint64_t>(i)) >= dropout_threshold(test.p);
    const double scale = test.p == 0.0 ? 1.0 : static_cast<double>(dropout_scale(test.p));
    const double branch = tensors.x.load(i) + (test.has_bias ? tensors.bias.load(i % test.shape.C) : 0.0);
    const double sum = (kept ? branch * scale : 0.0) + (test.has_residual ? tensors.residual.load(i) : 0.0);
    sums.push_back({sum, norm_input_error_bound(branch, scale, sum) + store_error_bound(test.dtype, sum)});
  }
  return sums;
}

struct BackwardTensors {
  GuardedBuffer d_y, d_y2, x_hat, rstd, gain, d_sum_term;
  BiasDropoutResidualNormBwdArgs args;

  explicit BackwardTensors(const NormCase& test)
      : d_y(tensor_name("d_y", test.shape, test.dtype), test.dtype, test.shape.size()),
        d_y2(tensor_name("d_y2", test.shape, test.dtype), test.dtype, test.shape.size()),
        x_hat(tensor_name("x_hat", test.shape, test.dtype), test.dtype, test.shape.size()),
        rstd(tensor_name("rstd", test.shape, DType::kF32), DType::kF32, test.shape.T),
        gain(tensor_name("gain", test.shape, test.parameters), test.parameters, test.shape.C),
        d_sum_term(tensor_name("d_sum_term", test.shape, test.dtype), test.dtype, test.shape.size()) {
    d_sum_term.fill_normal();
    d_y.fill_normal();
    d_y2.fill_normal();
    x_hat.fill_normal();
    rstd.fill_uniform(0.5, 2.0);
    gain.fill_normal(1.0, 0.2);
    args.d_y = d_y.view();
    if (test.has_d_y2) args.d_y2 = d_y2.view();
    args.x_hat = x_hat.view();
    args.rstd = rstd.view();
    args.gain = gain.view();
    if (test.has_d_sum_term) args.d_sum_term = d_sum_term.view();
    args.T = test.shape.T;
    args.C = test.shape.C;
    args.p = test.p;
    args.where = kSite;
    args.accumulate = test.accumulate;
  }
  double g(int64_t i) const { return d_y.load(i) + (args.d_y2 ? d_y2.load(i) : 0.0); }
};

// The output tensors of a backward pass.
struct Gradients {
  GuardedBuffer d_residual, d_x, d_bias, d_gain, d_beta;

  Gradients(RowsAndColumns shape, DType activations, DType sums)
      : d_residual("d_residual", activations, shape.size()),
        d_x("d_x", activations, shape.size()),
        d_bias("d_bias", sums, shape.C),
        d_gain("d_gain", sums, shape.C),
        d_beta("d_beta", sums, shape.C) {}
  void hold(const GuardedBuffer& before) {
    for (GuardedBuffer* sum : {&d_bias, &d_gain, &d_beta}) sum->assign(before.to_doubles());
  }
  BiasDropoutResidualNormBwdArgs into(BiasDropoutResidualNormBwdArgs args) {
    args.d_residual = d_residual.view();
    args.d_x = d_x.view();
    args.d_bias = d_bias.view();
    args.d_gain = d_gain.view();
    args.d_beta = d_beta.view();
    return args;
  }
};

struct BackwardBounds {
  std::vector<double> d_residual, d_x, d_bias, d_gain, d_beta;
};

// Computes the error bounds of a backward pass. `depth` is the largest number of additions that a term of a sum over rows takes part in.
inline BackwardBounds backward_bounds(const NormCase& test, const BackwardTensors& tensors,
                                      const Gradients& want, const GuardedBuffer& before, double depth) {
  const RowsAndColumns shape = test.shape;
  const double scale = test.p > 0.0 ? static_cast<double>(dropout_scale(test.p)) : 1.0;
  BackwardBounds bounds;
  struct Column {
    double d_x = 0.0, d_x_error = 0.0, gain = 0.0, beta = 0.0;
  };
  std::vector<Column> columns(static_cast<size_t>(shape.C));
  for (int64_t t = 0; t < shape.T; ++t) {
    double mean_abs_g = 0.0, mean_abs_gx = 0.0;
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      const double g = std::abs(tensors.g(i) * tensors.gain.load(i % shape.C));
      mean_abs_g += g / static_cast<double>(shape.C);
      mean_abs_gx += g * std::abs(tensors.x_hat.load(i)) / static_cast<double>(shape.C);
    }
    for (int64_t i = t * shape.C; i < (t + 1) * shape.C; ++i) {
      const double g = tensors.g(i);
      const double x_hat = tensors.x_hat.load(i);
      const double of_term = test.has_d_sum_term ? kRoundoffF32 * std::abs(want.d_residual.load(i)) : 0.0;
      const double d_s =
          1.01 * of_term + normalize_bwd_error_bound(tensors.rstd.load(t), g * tensors.gain.load(i % shape.C),
                                                     x_hat, mean_abs_g, mean_abs_gx, shape.C);
      const double d_x =
          want.d_x.load(i) == 0.0 ? 0.0 : scale * d_s + kRoundoffF32 * std::abs(want.d_x.load(i));
      bounds.d_residual.push_back(d_s + store_error_bound(test.dtype, want.d_residual.load(i)));
      bounds.d_x.push_back(d_x + store_error_bound(test.dtype, want.d_x.load(i)));
      Column& column = columns[static_cast<size_t>(i % shape.C)];
      column.d_x += std::abs(want.d_x.load(i));
      column.d_x_error += d_x;
      column.gain += std::abs(g * x_hat);
      column.beta += std::abs(g);
    }
  }
  for (int64_t c = 0; c < shape.C; ++c) {
    const Column& column = columns[static_cast<size_t>(c)];
    const double held = std::abs(before.load(c));
    const auto bound = [&](double magnitudes, double errors) {
      return depth * kRoundoffF32 * (magnitudes + held) + errors;
    };
    bounds.d_bias.push_back(bound(column.d_x, column.d_x_error));
    bounds.d_gain.push_back(bound(column.gain, 2.0 * kRoundoffF32 * column.gain));
    bounds.d_beta.push_back(bound(column.beta, kRoundoffF32 * column.beta));
  }
  return bounds;
}

inline void expect_within(const Gradients& got, const Gradients& want, const BackwardBounds& bounds) {
  const auto check = [](const GuardedBuffer& a, const GuardedBuffer& b, const std::vector<double>& limits) {
    const Comparison result = compare(a, b, limit_of(limits, Zeros::kExpected));
    EXPECT_TRUE(result.ok()) << result;
  };
  check(got.d_residual, want.d_residual, bounds.d_residual);
  check(got.d_x, want.d_x, bounds.d_x);
  check(got.d_bias, want.d_bias, bounds.d_bias);
  check(got.d_gain, want.d_gain, bounds.d_gain);
  check(got.d_beta, want.d_beta, bounds.d_beta);
}

}  // namespace plimsoll::test
