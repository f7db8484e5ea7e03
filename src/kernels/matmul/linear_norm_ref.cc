#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/element_wise/scale_shift.h"
#include "kernels/matmul/linear_norm.h"

namespace plimsoll {

void linear_norm_ref(const LinearProblem& problem, const LinearNormArgs& args) {
  PLIMSOLL_CHECK(args.x && args.w && args.bias && args.residual && args.gain && args.y,
                 "linear_norm: an operand is null");
  const auto columns = static_cast<double>(problem.columns);
  std::vector<double> s(static_cast<size_t>(problem.columns));
  for (int64_t t = 0; t < problem.rows; ++t) {
    double mean = 0.0, variance = 0.0;
    for (int64_t n = 0; n < problem.columns; ++n) {
      double sum = args.bias.load(n) + args.residual.load(t * problem.columns + n);
      for (int64_t k = 0; k < problem.terms; ++k)
        sum += args.x.load(t * problem.terms + k) * args.w.load(n * problem.terms + k);
      s[static_cast<size_t>(n)] = sum;
      mean += sum / columns;
    }
    for (const double value : s) variance += (value - mean) * (value - mean) / columns;
    const double rstd = 1.0 / std::sqrt(variance + args.eps);
    for (int64_t n = 0; n < problem.columns; ++n) {
      const double x_hat = (s[static_cast<size_t>(n)] - mean) * rstd;
      args.y.store(t * problem.columns + n,
                   x_hat * args.gain.load(n) + (args.beta ? args.beta.load(n) : 0.0));
    }
  }
}

double linear_norm_input_error_bound(const LinearProblem& problem, double abs_sum, double product,
                                     double bias, double residual) {
  constexpr double u = kRoundoffF32;
  const double in_fp32 = static_cast<double>(problem.terms + 2) * 4.0 * u * abs_sum;
  // A kernel may add the bias or the residual first; the bound holds for both orders.
  const double first = std::abs(product) + std::max(std::abs(bias), std::abs(residual)) + in_fp32;
  const double first_error = in_fp32 + u * first + store_error_bound(problem.dtype, first);
  const double second = std::abs(product) + std::abs(bias) + std::abs(residual) + first_error;
  return first_error + u * second + store_error_bound(problem.dtype, second);
}

double linear_norm_error_bound(const LinearProblem& problem, const RowMagnitudes& row, double x_hat,
                               double gain, double beta) {
  const double normalized = normalize_fwd_error_bound(row, x_hat, problem.columns, DType::kF32);
  const double error = 1.01 * std::abs(gain) * normalized;
  return error +
         scale_shift_fwd_error_bound(x_hat * gain, std::abs(x_hat * gain + beta) + error, problem.dtype);
}

}  // namespace plimsoll
