#include <numbers>

#include "kernels/element_wise/gelu.h"

namespace plimsoll {
namespace {
constexpr double kCubic = 0.044715;
double tanh_form_argument(double x) {
  return std::sqrt(2.0 / std::numbers::pi) * (x + kCubic * x * x * x);
}
// Returns 1 / (1 + exp(-2u)) without overflow for any u.
double tanh_form_gate(double u) {
  const double e = std::exp(-2.0 * std::abs(u));
  return u >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
}
}  // namespace

double gelu_exact(double x, GeluForm form) {
  return form == GeluForm::kErf ? x * normal_cdf(x) : x * tanh_form_gate(tanh_form_argument(x));
}

double gelu_slope_exact(double x, GeluForm form) {
  if (form == GeluForm::kErf) return normal_cdf(x) + x * normal_density(x);
  const double u = tanh_form_argument(x);
  const double gate = tanh_form_gate(u);
  const double d_u = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * kCubic * x * x);
  return gate + x * gate * tanh_form_gate(-u) * 2.0 * d_u;
}

double gelu_fwd_error_bound(double x, GeluForm form, DType stored) {
  const double exact = gelu_exact(x, form);
  const double z = std::abs(x);
  double roundoffs = 2.0 * std::abs(exact);
  if (form == GeluForm::kErf) {
    roundoffs += (10.0 + 2.5 * z * z) * z * normal_cdf(-z);
  } else {
    const double u = std::abs(tanh_form_argument(x));
    roundoffs += std::abs(exact) * (2.0 + tanh_form_gate(-tanh_form_argument(x)) * (12.0 * u + 4.0));
  }
  return kRoundoffF32 * roundoffs + 4e-37 + store_error_bound(stored, exact);
}

double gelu_bwd_error_bound(double x, double d_y, GeluForm form, DType stored) {
  const double exact = gelu_slope_exact(x, form);
  const double z = std::abs(x);
  double roundoffs = 3.0 * std::abs(exact);
  if (form == GeluForm::kErf) {
    roundoffs += (10.0 + 2.5 * z * z) * (normal_cdf(-z) + z * normal_density(z));
  } else {
    const double u = tanh_form_argument(x);
    const double gate = tanh_form_gate(u);
    const double product = gate * tanh_form_gate(-u);
    const double d_u = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * kCubic * x * x);
    roundoffs += 2.0 * gate + product * (12.0 * std::abs(u) + 4.0);
    // Beyond 12 the product is 0 in fp32, and below any normal number in this formula.
    if (z < 15.0) roundoffs += z * product * 2.0 * d_u * (24.0 * std::abs(u) + 8.0);
  }
  return std::abs(d_y) * (kRoundoffF32 * roundoffs + 1e-35) + store_error_bound(stored, d_y * exact);
}

void gelu_fwd_ref(const GeluFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, gelu_exact(args.x.load(i), args.form));
}

void gelu_bwd_ref(const GeluBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    args.d_x.store(i, args.d_y.load(i) * gelu_slope_exact(args.x.load(i), args.form));
  }
}

void bias_gelu_fwd_ref(const BiasGeluFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      args.y.store(i, gelu_exact(args.h.load(i) + args.b.load(c), args.form));
    }
  }
}

void bias_gelu_bwd_ref(const BiasGeluBwdArgs& args) {
  for (int64_t c = 0; c < args.C; ++c) {
    double sum = 0.0;
    for (int64_t t = 0; t < args.T; ++t) {
      const int64_t i = t * args.C + c;
      const double d_h = args.d_y.load(i) * gelu_slope_exact(args.h.load(i) + args.b.load(c), args.form);
      args.d_h.store(i, d_h);
      sum += d_h;
    }
    args.d_b.store(c, args.accumulate == Accumulate::kAdd ? args.d_b.load(c) + sum : sum);
  }
}

}  // namespace plimsoll
