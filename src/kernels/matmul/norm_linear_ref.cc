#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/rounding.h"
#include "kernels/matmul/norm_linear.h"

namespace plimsoll {
namespace {

// Returns the value that a number has after it was stored in the type of `like`.
double rounded_as(ConstView like, double value) {
  double place = 0.0;
  const View one{&place, like.dtype};
  one.store(0, value);
  return one.load(0);
}

// Computes h of one row and, if the problem has a residual, s of the row.
void normalize_row(const NormLinearProblem& problem, const NormLinearArgs& args, int64_t t,
                   std::vector<double>& h) {
  const int64_t terms = problem.product.k;
  const auto count = static_cast<double>(terms);
  double mean = 0.0, variance = 0.0;
  for (int64_t k = 0; k < terms; ++k) {
    double s = args.x.load(t * terms + k);
    if (args.residual) {
      if (args.norm_bias) s += args.norm_bias.load(k);
      s = rounded_as(args.x, s + args.residual.load(t * terms + k));
    }
    if (args.sum) args.sum.store(t * terms + k, s);
    h[static_cast<size_t>(k)] = s;
    mean += s / count;
  }
  if (problem.norm == NormKind::kRms) mean = 0.0;
  for (const double s : h) variance += (s - mean) * (s - mean) / count;
  const double rstd = 1.0 / std::sqrt(variance + args.eps);
  for (int64_t k = 0; k < terms; ++k) {
    double& value = h[static_cast<size_t>(k)];
    value = (value - mean) * rstd * args.gain.load(k);
    if (args.beta) value += args.beta.load(k);
    value = rounded_as(args.x, value);
  }
}

}  // namespace

void norm_linear_ref(const NormLinearProblem& problem, const NormLinearArgs& args) {
  PLIMSOLL_CHECK(args.x && args.w && args.gain && args.y, "norm_linear: an operand is null");
  PLIMSOLL_CHECK(
      static_cast<bool>(args.residual) == static_cast<bool>(args.sum) && (args.residual || !args.norm_bias),
      "norm_linear: residual and sum must both be present or absent, and norm_bias needs a residual");
  const int64_t terms = problem.product.k, outputs = problem.outputs();
  std::vector<double> h(static_cast<size_t>(terms));
  for (int64_t t = 0; t < problem.product.m; ++t) {
    normalize_row(problem, args, t, h);
    const auto layer = [&](int64_t n) {
      double sum = args.bias ? args.bias.load(n) : 0.0;
      for (int64_t k = 0; k < terms; ++k) sum += h[static_cast<size_t>(k)] * args.w.load(n * terms + k);
      return sum;
    };
    for (int64_t n = 0; n < outputs; ++n) {
      double y = layer(n);
      if (problem.end != LayerEnd::kProduct) y = gelu_exact(y, problem.activation);
      if (problem.end == LayerEnd::kGlu) y *= layer(outputs + n);
      args.y.store(t * outputs + n, y);
    }
  }
}

double norm_linear_term_error_bound(DType dtype, double h, double gain, double rstd, double s) {
  return (dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10) * (std::abs(h) + std::abs(gain) * rstd * std::abs(s));
}

double norm_linear_product_error_bound(const NormLinearProblem& problem, double abs_sum, double changes,
                                       double product, double bias) {
  const DType dtype = problem.product.a;
  const double in_fp32 =
      static_cast<double>(problem.product.k + 2) * 4.0 * kRoundoffF32 * (abs_sum + changes) + changes;
  const double stored = in_fp32 + store_error_bound(dtype, std::abs(product) + in_fp32);
  return stored + store_error_bound(dtype, std::abs(product) + std::abs(bias) + stored);
}

}  // namespace plimsoll
