#include "kernels/layer_norm/bias_dropout_residual_norm.h"

#include <vector>

namespace plimsoll {
namespace {

// Returns the factor by which dropout multiplies an element: 0 if it is dropped.
class DropoutFactor {
 public:
  DropoutFactor(double p, const RandomSite& where) : p_(p), where_(where) {
    PLIMSOLL_CHECK(p >= 0.0 && p < 1.0, "the dropout probability must be in [0, 1), but is {}", p);
  }
  double operator()(int64_t element) const {
    if (p_ == 0.0) return 1.0;
    const bool kept = random_half(where_, static_cast<uint64_t>(element)) >= dropout_threshold(p_);
    return kept ? static_cast<double>(dropout_scale(p_)) : 0.0;
  }

 private:
  double p_;
  RandomSite where_;
};

// Two means over a row that the gradient needs. They are computed before any output of the row is written, because outputs may overwrite
// inputs.
struct GradientMeans {
  double g = 0.0;
  double g_x_hat = 0.0;
};

double gradient(const BiasDropoutResidualNormBwdArgs& args, int64_t i) {
  return args.d_y.load(i) + (args.d_y2 ? args.d_y2.load(i) : 0.0);
}

GradientMeans gradient_means(const BiasDropoutResidualNormBwdArgs& args, int64_t t) {
  GradientMeans means;
  for (int64_t c = 0; c < args.C; ++c) {
    const int64_t i = t * args.C + c;
    const double g = gradient(args, i) * args.gain.load(c);
    means.g += g / static_cast<double>(args.C);
    means.g_x_hat += g * args.x_hat.load(i) / static_cast<double>(args.C);
  }
  return means;
}

double d_s(const BiasDropoutResidualNormBwdArgs& args, const GradientMeans& means, int64_t t, int64_t c) {
  const int64_t i = t * args.C + c;
  return args.rstd.load(t) *
             (gradient(args, i) * args.gain.load(c) - means.g - args.x_hat.load(i) * means.g_x_hat) +
         (args.d_sum_term ? args.d_sum_term.load(i) : 0.0);
}

void start_sum(const View& sum, int64_t C, Accumulate accumulate) {
  if (!sum || accumulate == Accumulate::kAdd) return;
  for (int64_t c = 0; c < C; ++c) sum.store(c, 0.0);
}
// Adds a value to element c of a sum over rows. The additions are rounded to the type of the sum; tests use double.
void add_to_sum(const View& sum, int64_t c, double value) {
  if (sum) sum.store(c, sum.load(c) + value);
}

}  // namespace

void bias_dropout_residual_norm_fwd_ref(const BiasDropoutResidualNormFwdArgs& args) {
  const DropoutFactor factor(args.p, args.where);
  const double num_columns = static_cast<double>(args.C);
  std::vector<double> s(static_cast<size_t>(args.C));
  for (int64_t t = 0; t < args.T; ++t) {
    double mean = 0.0;
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      double& of_column = s[static_cast<size_t>(c)];
      of_column = (args.x.load(i) + (args.bias ? args.bias.load(c) : 0.0)) * factor(i) +
                  (args.residual ? args.residual.load(i) : 0.0);
      if (args.sum) {
        args.sum.store(i, of_column);
        of_column = args.sum.load(i);
      }
      mean += of_column / num_columns;
    }
    double variance = 0.0;
    for (double value : s) variance += (value - mean) * (value - mean) / num_columns;
    const double rstd = 1.0 / std::sqrt(variance + args.eps);
    for (int64_t c = 0; c < args.C; ++c) {
      const double x_hat = (s[static_cast<size_t>(c)] - mean) * rstd;
      if (args.x_hat) args.x_hat.store(t * args.C + c, x_hat);
      args.y.store(t * args.C + c, x_hat * args.gain.load(c) + (args.beta ? args.beta.load(c) : 0.0));
    }
    if (args.rstd) args.rstd.store(t, rstd);
  }
}

void bias_dropout_residual_norm_bwd_ref(const BiasDropoutResidualNormBwdArgs& args) {
  const DropoutFactor factor(args.p, args.where);
  for (const View& sum : {args.d_bias, args.d_gain, args.d_beta}) start_sum(sum, args.C, args.accumulate);
  for (int64_t t = 0; t < args.T; ++t) {
    const GradientMeans means = gradient_means(args, t);
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      const double d_residual = d_s(args, means, t, c);
      const double d_x = d_residual * factor(i);
      add_to_sum(args.d_gain, c, gradient(args, i) * args.x_hat.load(i));
      add_to_sum(args.d_beta, c, gradient(args, i));
      add_to_sum(args.d_bias, c, d_x);
      if (args.d_residual) args.d_residual.store(i, d_residual);
      if (args.d_x) args.d_x.store(i, d_x);
    }
  }
}

}  // namespace plimsoll
