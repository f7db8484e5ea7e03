// A linear layer with a residual and a norm on the host, for tests: operands, the result in double, and the error bounds of linear_norm.h
// computed from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul/linear_norm.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

struct LinearNormCase {
  static constexpr double kEps = 1e-12;

  LinearNormCase(const LinearProblem& p, DType parameters, const std::string& name)
      : problem(p),
        x(name + "/x", p.dtype, p.rows * p.terms),
        w(name + "/w", p.dtype, p.columns * p.terms),
        bias(name + "/bias", parameters, p.columns),
        residual(name + "/residual", p.dtype, p.rows * p.columns),
        gain(name + "/gain", parameters, p.columns),
        beta(name + "/beta", parameters, p.columns) {}

  // Fills the operands with random numbers. The mean of the residuals is `mean`.
  void fill(double mean) {
    x.fill_normal();
    w.fill_normal(0.0, 1.0 / std::sqrt(static_cast<double>(problem.terms)));
    bias.fill_uniform();
    residual.fill_normal(mean, 1.5);
    gain.fill_normal(1.0, 0.2);
    beta.fill_normal(0.0, 0.2);
  }
  GuardedBuffer reference() const {
    GuardedBuffer exact("linear_norm/exact", DType::kF64, residual.count());
    linear_norm_ref(problem, {.x = x.view(),
                              .w = w.view(),
                              .bias = bias.view(),
                              .residual = residual.view(),
                              .gain = gain.view(),
                              .beta = has_beta ? beta.view() : View{},
                              .y = exact.view(),
                              .eps = kEps});
    return exact;
  }
  std::vector<double> bounds() const {
    const std::vector<double> xs = x.to_doubles(), ws = w.to_doubles();
    const auto columns = static_cast<double>(problem.columns);
    std::vector<double> limits, s(static_cast<size_t>(problem.columns));
    for (int64_t t = 0; t < problem.rows; ++t) {
      RowMagnitudes row;
      double mean = 0.0, variance = 0.0;
      for (int64_t n = 0; n < problem.columns; ++n) {
        double product = 0.0, abs_sum = 0.0;
        for (int64_t k = 0; k < problem.terms; ++k) {
          const double term =
              xs[static_cast<size_t>(t * problem.terms + k)] * ws[static_cast<size_t>(n * problem.terms + k)];
          product += term;
          abs_sum += std::abs(term);
        }
        const double added = residual.load(t * problem.columns + n);
        s[static_cast<size_t>(n)] = product + bias.load(n) + added;
        mean += s[static_cast<size_t>(n)] / columns;
        row.mean_abs += std::abs(s[static_cast<size_t>(n)]) / columns;
        row.input_error = std::max(
            row.input_error, linear_norm_input_error_bound(problem, abs_sum, product, bias.load(n), added));
      }
      for (const double value : s) variance += (value - mean) * (value - mean) / columns;
      row.rstd = 1.0 / std::sqrt(variance + kEps);
      for (int64_t n = 0; n < problem.columns; ++n) {
        const double x_hat = (s[static_cast<size_t>(n)] - mean) * row.rstd;
        limits.push_back(
            linear_norm_error_bound(problem, row, x_hat, gain.load(n), has_beta ? beta.load(n) : 0.0));
      }
    }
    return limits;
  }

  LinearProblem problem;
  bool has_beta = true;
  GuardedBuffer x, w, bias, residual, gain, beta;
};

}  // namespace plimsoll::test
