#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/rounding.h"
#include "kernels/matmul/linear_gelu.h"

namespace plimsoll {

void linear_gelu_ref(const LinearProblem& problem, const MatmulArgs& args) {
  PLIMSOLL_CHECK(args.a && args.b && args.bias && args.c, "linear_gelu: an operand is null");
  for (int64_t t = 0; t < problem.rows; ++t) {
    for (int64_t n = 0; n < problem.columns; ++n) {
      double sum = args.bias.load(n);
      for (int64_t k = 0; k < problem.terms; ++k) {
        sum += args.a.load(t * problem.terms + k) * args.b.load(n * problem.terms + k);
      }
      args.c.store(t * problem.columns + n, gelu_exact(sum, Activation::kGelu));
    }
  }
}

double linear_gelu_error_bound(const LinearProblem& problem, double abs_sum, double product, double bias) {
  constexpr double kSteepest = 1.13;
  constexpr double u = kRoundoffF32;
  const double in_fp32 = static_cast<double>(problem.terms + 2) * 4.0 * u * abs_sum;
  double before = in_fp32 + store_error_bound(problem.dtype, std::abs(product) + in_fp32);
  before += u * (std::abs(product + bias) + before);
  const double x = product + bias;
  const double z = std::max(0.0, std::abs(x) - before);
  const double tail = (z + before) * 0.5 * std::erfc(z / std::numbers::sqrt2);
  const double relative = problem.dtype == DType::kBF16 ? 1.6e-4 : 3e-6;
  const double activation = relative * (1.0 + z * z) * tail + 2.0 * u * std::abs(x) + 1e-14;
  const double exact = std::abs(gelu_exact(x, Activation::kGelu));
  const double error = kSteepest * before + activation;
  return error + store_error_bound(problem.dtype, exact + error);
}

}  // namespace plimsoll
