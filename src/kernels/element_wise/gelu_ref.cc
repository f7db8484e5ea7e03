#include <numbers>

#include "base/check.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/element_wise/glu.h"

namespace plimsoll {
namespace {

constexpr double kCubic = 0.044715;
// The smallest normal fp32. A CPU thread may treat smaller numbers as zero.
constexpr double kLeastNormal = 0x1p-126;

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
}

// Returns 1 / (1 + exp(-v)) without overflow for any v.
double logistic(double v) {
  const double e = std::exp(-std::abs(v));
  return v >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}

// The activations of the form x * gate with gate = logistic(v(x)).
struct Gate {
  double v;
  double gate;
  double d_v;  // the derivative of v with respect to x
  // The product gate * (1 - gate), which is the derivative of the logistic function at v.
  double slope() const { return gate * logistic(-v); }
};
Gate gate_of(double x, Activation activation) {
  if (activation == Activation::kSilu) return {x, logistic(x), 1.0};
  const double scale = 2.0 * std::sqrt(2.0 / std::numbers::pi);
  const double v = scale * (x + kCubic * x * x * x);
  return {v, logistic(v), scale * (1.0 + 3.0 * kCubic * x * x)};
}

double tanh_slope(double x) {
  const double e = std::exp(-2.0 * std::abs(x));
  return 4.0 * e / ((1.0 + e) * (1.0 + e));
}

// An error bound: `roundoffs` times the unit roundoff of fp32, plus the absolute error `floor`.
struct Errors {
  double roundoffs;
  double floor;
};

Errors value_errors(double x, Activation activation) {
  const double exact = std::abs(gelu_exact(x, activation));
  const double z = std::abs(x);
  switch (activation) {
    case Activation::kGelu:
      return {2.0 * exact + (10.0 + 2.5 * z * z) * z * normal_cdf(-z), 4e-37};
    case Activation::kGeluTanh:
    case Activation::kSilu: {
      const double v = gate_of(x, activation).v;
      // The kernels set a gate below 2^-125 to 0, which for SiLU happens below x = -86.6. `floor` bounds the result that is lost.
      const double floor = activation == Activation::kSilu ? 2.1e-36 : 4e-37;
      return {4.0 * exact + exact * logistic(-v) * (6.0 * std::abs(v) + 4.0), floor};
    }
    case Activation::kRelu:
      return {0.0, z < kLeastNormal ? z : 0.0};
    case Activation::kTanh:
      return {6.0 * exact, 4e-37};
  }
  PLIMSOLL_CHECK(false, "Activation has a value that is not one of its enumerators");
}

Errors slope_errors(double x, Activation activation) {
  const double exact = std::abs(gelu_slope_exact(x, activation));
  const double z = std::abs(x);
  switch (activation) {
    case Activation::kGelu:
      return {3.0 * exact + (10.0 + 2.5 * z * z) * (normal_cdf(-z) + z * normal_density(z)), 1e-35};
    case Activation::kGeluTanh:
    case Activation::kSilu: {
      const Gate g = gate_of(x, activation);
      double roundoffs = 3.0 * exact + 2.0 * g.gate + g.slope() * (6.0 * std::abs(g.v) + 4.0);
      // For large |x| g.slope() is 0. The following product is then 0 as well, both in fp32 and in this formula.
      if (g.slope() > 0.0) roundoffs += z * g.slope() * g.d_v * (12.0 * std::abs(g.v) + 8.0);
      return {roundoffs, 1e-35};
    }
    case Activation::kRelu:
      return {0.0, z < kLeastNormal ? 1.0 : 0.0};
    case Activation::kTanh: {
      const double y = std::tanh(x);
      return {3.0 * exact + 12.0 * y * y + 2.0, 1e-35};
    }
  }
  PLIMSOLL_CHECK(false, "Activation has a value that is not one of its enumerators");
}

}  // namespace

double gelu_exact(double x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return x * normal_cdf(x);
    case Activation::kGeluTanh:
    case Activation::kSilu:
      return x * gate_of(x, activation).gate;
    case Activation::kRelu:
      return x <= 0.0 ? 0.0 : x;
    case Activation::kTanh:
      return std::tanh(x);
  }
  PLIMSOLL_CHECK(false, "Activation has a value that is not one of its enumerators");
}

double gelu_slope_exact(double x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return normal_cdf(x) + x * normal_density(x);
    case Activation::kGeluTanh:
    case Activation::kSilu: {
      const Gate g = gate_of(x, activation);
      return g.gate + x * g.slope() * g.d_v;
    }
    case Activation::kRelu:
      return x > 0.0 ? 1.0 : (x <= 0.0 ? 0.0 : x);
    case Activation::kTanh:
      return tanh_slope(x);
  }
  PLIMSOLL_CHECK(false, "Activation has a value that is not one of its enumerators");
}

double gelu_fwd_error_bound(double x, Activation activation, DType stored) {
  const Errors errors = value_errors(x, activation);
  return kRoundoffF32 * errors.roundoffs + errors.floor +
         store_error_bound(stored, gelu_exact(x, activation));
}

double gelu_bwd_error_bound(double x, double d_y, Activation activation, DType stored) {
  const Errors errors = slope_errors(x, activation);
  return std::abs(d_y) * (kRoundoffF32 * errors.roundoffs + errors.floor) +
         store_error_bound(stored, d_y * gelu_slope_exact(x, activation));
}

void gelu_fwd_ref(const GeluFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, gelu_exact(args.x.load(i), args.activation));
}

void gelu_bwd_ref(const GeluBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    args.d_x.store(i, args.d_y.load(i) * gelu_slope_exact(args.x.load(i), args.activation));
  }
}

void bias_gelu_fwd_ref(const BiasGeluFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      args.y.store(i, gelu_exact(args.h.load(i) + args.b.load(c), args.activation));
    }
  }
}

void bias_gelu_bwd_ref(const BiasGeluBwdArgs& args) {
  for (int64_t c = 0; c < args.C; ++c) {
    double sum = 0.0;
    for (int64_t t = 0; t < args.T; ++t) {
      const int64_t i = t * args.C + c;
      const double d_h =
          args.d_y.load(i) * gelu_slope_exact(args.h.load(i) + args.b.load(c), args.activation);
      args.d_h.store(i, d_h);
      sum += d_h;
    }
    args.d_b.store(c, args.accumulate == Accumulate::kAdd ? args.d_b.load(c) + sum : sum);
  }
}

void glu_fwd_ref(const GluFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t f = 0; f < args.F; ++f) {
      const int64_t gate = 2 * t * args.F + f;
      args.y.store(t * args.F + f,
                   gelu_exact(args.x.load(gate), args.activation) * args.x.load(gate + args.F));
    }
  }
}

void glu_bwd_ref(const GluBwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t f = 0; f < args.F; ++f) {
      const int64_t at = 2 * t * args.F + f;
      const double gate = args.x.load(at), up = args.x.load(at + args.F), d_y = args.d_y.load(t * args.F + f);
      args.d_x.store(at, d_y * up * gelu_slope_exact(gate, args.activation));
      args.d_x.store(at + args.F, d_y * gelu_exact(gate, args.activation));
    }
  }
}

}  // namespace plimsoll
