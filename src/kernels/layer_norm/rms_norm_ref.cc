#include <cmath>
#include <vector>

#include "kernels/layer_norm/rms_norm.h"

namespace plimsoll {
namespace {

// Calls body(first, vector, second) for each vector: `first` is the index of its first element, `vector` its index in an array [T, H + G]
// such as rstd, and `second` is true if the second gain applies to it.
template <class Body>
void for_each_vector_of(const RmsNormDims& dims, const Body& body) {
  for (int64_t t = 0; t < dims.T; ++t) {
    for (int64_t h = 0; h < dims.H + dims.G; ++h) {
      body(t * dims.N + h * dims.C, t * (dims.H + dims.G) + h, h >= dims.H);
    }
  }
}

void copy_other_elements(const RmsNormDims& dims, const ConstView& from, const View& to) {
  if (from.data == to.data) return;
  for (int64_t t = 0; t < dims.T; ++t) {
    for (int64_t n = (dims.H + dims.G) * dims.C; n < dims.N; ++n) {
      to.store(t * dims.N + n, from.load(t * dims.N + n));
    }
  }
}

}  // namespace

void rms_norm_fwd_ref(const RmsNormFwdArgs& args) {
  const int64_t C = args.dims.C;
  std::vector<double> values(static_cast<size_t>(C));
  for_each_vector_of(args.dims, [&](int64_t first, int64_t vector, bool second) {
    double squares = 0.0;
    for (int64_t c = 0; c < C; ++c) {
      double& value = values[static_cast<size_t>(c)];
      value = args.x.load(first + c);
      if (args.residual) {
        args.sum.store(first + c, value + args.residual.load(first + c));
        value = args.sum.load(first + c);
      }
      squares += value * value;
    }
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(C) + args.eps);
    const ConstView& gain = second ? args.second_gain : args.gain;
    for (int64_t c = 0; c < C; ++c) {
      args.y.store(first + c, values[static_cast<size_t>(c)] * rstd * gain.load(c));
    }
    if (args.rstd) args.rstd.store(vector, rstd);
  });
  copy_other_elements(args.dims, args.x, args.y);
}

void rms_norm_bwd_ref(const RmsNormBwdArgs& args) {
  const int64_t C = args.dims.C;
  for (const View& sum : {args.d_gain, args.d_second_gain}) {
    for (int64_t c = 0; sum && args.accumulate == Accumulate::kOverwrite && c < C; ++c) sum.store(c, 0.0);
  }
  for_each_vector_of(args.dims, [&](int64_t first, int64_t vector, bool second) {
    const ConstView& gain = second ? args.second_gain : args.gain;
    const View& d_gain = second ? args.d_second_gain : args.d_gain;
    const double rstd = args.rstd.load(vector);
    double mean = 0.0;
    for (int64_t c = 0; c < C; ++c) {
      mean +=
          args.d_y.load(first + c) * gain.load(c) * args.x.load(first + c) * rstd / static_cast<double>(C);
    }
    for (int64_t c = 0; c < C; ++c) {
      const double d_y = args.d_y.load(first + c), x_hat = args.x.load(first + c) * rstd;
      const double term = args.d_sum_term ? args.d_sum_term.load(first + c) : 0.0;
      args.d_x.store(first + c, rstd * (d_y * gain.load(c) - x_hat * mean) + term);
      d_gain.store(c, d_gain.load(c) + d_y * x_hat);
    }
  });
  copy_other_elements(args.dims, args.d_y, args.d_x);
}

}  // namespace plimsoll
