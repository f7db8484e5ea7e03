#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

void normalize_fwd_ref(const NormalizeFwdArgs& args) {
  const double num_columns = static_cast<double>(args.C);
  for (int64_t t = 0; t < args.T; ++t) {
    const int64_t row = t * args.C;
    double mean = 0.0;
    for (int64_t c = 0; c < args.C; ++c) mean += args.x.load(row + c);
    mean /= num_columns;
    double variance = 0.0;
    for (int64_t c = 0; c < args.C; ++c) {
      const double centered = args.x.load(row + c) - mean;
      variance += centered * centered;
    }
    variance /= num_columns;
    const double rstd = 1.0 / std::sqrt(variance + args.eps);
    for (int64_t c = 0; c < args.C; ++c) args.x_hat.store(row + c, (args.x.load(row + c) - mean) * rstd);
    args.rstd.store(t, rstd);
  }
}

void normalize_bwd_ref(const NormalizeBwdArgs& args) {
  const double num_columns = static_cast<double>(args.C);
  for (int64_t t = 0; t < args.T; ++t) {
    const int64_t row = t * args.C;
    double mean = 0.0;
    double mean_product = 0.0;
    for (int64_t c = 0; c < args.C; ++c) {
      mean += args.d_x_hat.load(row + c);
      mean_product += args.d_x_hat.load(row + c) * args.x_hat.load(row + c);
    }
    mean /= num_columns;
    mean_product /= num_columns;
    for (int64_t c = 0; c < args.C; ++c) {
      const double centered = args.d_x_hat.load(row + c) - mean - args.x_hat.load(row + c) * mean_product;
      args.d_x.store(row + c, args.rstd.load(t) * centered);
    }
  }
}

}  // namespace plimsoll
