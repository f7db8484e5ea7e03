// A norm, its linear layer and the activation after it, on the host, for tests: operands, the results of the reference, and the error
// bounds of norm_linear.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/element_wise/gelu.h"
#include "kernels/matmul/norm_linear.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

struct NormLinearCase {
  static constexpr double kEps = 1e-6;
  struct Operands {
    bool residual = false, norm_bias = false, beta = false, bias = false;
  };

  NormLinearCase(const NormLinearProblem& p, DType parameters, const Operands& present,
                 const std::string& name)
      : problem(p),
        has(present),
        x(name + "/x", p.product.a, p.product.m * p.product.k),
        residual(name + "/residual", p.product.a, p.product.m * p.product.k),
        w(name + "/w", p.product.b, p.product.n * p.product.k),
        norm_bias(name + "/norm_bias", p.product.a, p.product.k),
        gain(name + "/gain", parameters, p.product.k),
        beta(name + "/beta", parameters, p.product.k),
        bias(name + "/bias", parameters, p.product.n) {
    x.fill_normal(0.3, 1.5);
    residual.fill_normal(-0.2, 1.0);
    w.fill_normal(0.0, 1.0 / std::sqrt(static_cast<double>(p.product.k)));
    norm_bias.fill_normal(0.0, 0.5);
    gain.fill_normal(1.0, 0.2);
    beta.fill_normal(0.0, 0.2);
    bias.fill_normal(0.0, 0.5);
  }

  int64_t rows() const { return problem.product.m; }
  int64_t terms() const { return problem.product.k; }

  // Returns the arguments of a call. Operands that the case does not have are null; `of` returns the view of an operand.
  template <class Of>
  NormLinearArgs args(const Of& of, View y, View sum) const {
    return {.x = of(x),
            .residual = has.residual ? of(residual) : ConstView{},
            .norm_bias = has.norm_bias ? of(norm_bias) : ConstView{},
            .gain = of(gain),
            .beta = has.beta ? of(beta) : ConstView{},
            .w = of(w),
            .bias = has.bias ? of(bias) : ConstView{},
            .y = y,
            .sum = has.residual ? sum : View{},
            .eps = kEps};
  }
  NormLinearArgs host_args(View y, View sum) const {
    return args([](const GuardedBuffer& buffer) -> ConstView { return buffer.view(); }, y, sum);
  }

  // Returns the error bound of each element of y. h, from which the bounds follow, is computed in double from the operands.
  std::vector<double> bounds() const {
    const DType dtype = problem.product.a;
    std::vector<double> limits, h(static_cast<size_t>(terms())), change(static_cast<size_t>(terms()));
    for (int64_t t = 0; t < rows(); ++t) {
      normalize(t, h, change);
      struct Sum {
        double value, error;
      };
      const auto layer = [&](int64_t n) {
        double product = 0.0, abs_sum = 0.0, changes = 0.0;
        for (int64_t k = 0; k < terms(); ++k) {
          const double weight = w.load(n * terms() + k);
          product += h[static_cast<size_t>(k)] * weight;
          abs_sum += std::abs(h[static_cast<size_t>(k)] * weight);
          changes += change[static_cast<size_t>(k)] * std::abs(weight);
        }
        const double added = has.bias ? bias.load(n) : 0.0;
        return Sum{product + added,
                   norm_linear_product_error_bound(problem, abs_sum, changes, product, added)};
      };
      // GELU has the steepest slope of all activations, 1.13.
      const auto function = [&](const Sum& z) {
        return Sum{gelu_exact(z.value, problem.activation),
                   1.13 * z.error + gelu_fwd_cuda_error_bound(z.value, problem.activation, dtype) +
                       store_error_bound(dtype, std::abs(z.value) + z.error)};
      };
      for (int64_t n = 0; n < problem.outputs(); ++n) {
        Sum y = layer(n);
        if (problem.end != LayerEnd::kProduct) y = function(y);
        if (problem.end == LayerEnd::kGlu) {
          const Sum rest = layer(problem.outputs() + n);
          y = {y.value * rest.value,
               std::abs(y.value) * rest.error + std::abs(rest.value) * y.error + y.error * rest.error};
        }
        limits.push_back(y.error + store_error_bound(dtype, std::abs(y.value) + y.error));
      }
    }
    return limits;
  }
  // Returns the error bound of each element of s: s may round to a neighbour of the reference's value.
  std::vector<double> sum_bounds(const GuardedBuffer& sum) const {
    std::vector<double> limits;
    for (int64_t i = 0; i < sum.count(); ++i)
      limits.push_back(2.0 * store_error_bound(problem.product.a, std::abs(sum.load(i))) + 1e-30);
    return limits;
  }

  NormLinearProblem problem;
  Operands has;
  GuardedBuffer x, residual, w, norm_bias, gain, beta, bias;

 private:
  void normalize(int64_t t, std::vector<double>& h, std::vector<double>& change) const {
    const auto count = static_cast<double>(terms());
    std::vector<double> s(h.size());
    double mean = 0.0, variance = 0.0;
    for (int64_t k = 0; k < terms(); ++k) {
      double& value = s[static_cast<size_t>(k)];
      value = x.load(t * terms() + k);
      if (has.residual) value += residual.load(t * terms() + k) + (has.norm_bias ? norm_bias.load(k) : 0.0);
      mean += value / count;
    }
    if (problem.norm == NormKind::kRms) mean = 0.0;
    for (const double value : s) variance += (value - mean) * (value - mean) / count;
    const double rstd = 1.0 / std::sqrt(variance + kEps);
    for (size_t k = 0; k < s.size(); ++k) {
      const auto column = static_cast<int64_t>(k);
      h[k] = (s[k] - mean) * rstd * gain.load(column) + (has.beta ? beta.load(column) : 0.0);
      change[k] = norm_linear_term_error_bound(problem.product.a, h[k], gain.load(column), rstd, s[k]);
    }
  }
};

}  // namespace plimsoll::test
