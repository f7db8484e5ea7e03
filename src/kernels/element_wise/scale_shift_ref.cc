#include "kernels/element_wise/scale_shift.h"

namespace plimsoll {

void scale_shift_fwd_ref(const ScaleShiftFwdArgs& args) {
  for (int64_t t = 0; t < args.T; ++t) {
    for (int64_t c = 0; c < args.C; ++c) {
      const int64_t i = t * args.C + c;
      args.y.store(i, args.x_hat.load(i) * args.gain.load(c) + args.bias.load(c));
    }
  }
}

void scale_shift_bwd_ref(const ScaleShiftBwdArgs& args) {
  const bool add = args.accumulate == Accumulate::kAdd;
  for (int64_t c = 0; c < args.C; ++c) {
    double d_gain = add ? args.d_gain.load(c) : 0.0;
    double d_bias = add ? args.d_bias.load(c) : 0.0;
    const double gain = args.gain.load(c);
    for (int64_t t = 0; t < args.T; ++t) {
      const int64_t i = t * args.C + c;
      const double d_y = args.d_y.load(i);
      d_gain += d_y * args.x_hat.load(i);
      d_bias += d_y;
      args.d_x_hat.store(i, d_y * gain);
    }
    args.d_gain.store(c, d_gain);
    args.d_bias.store(c, d_bias);
  }
}

}  // namespace plimsoll
