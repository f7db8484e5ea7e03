#include "kernels/element_wise/activation.h"

namespace plimsoll {

void tanh_fwd_ref(const ActivationFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.y.store(i, std::tanh(args.x.load(i)));
}

void relu_fwd_ref(const ActivationFwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const double x = args.x.load(i);
    args.y.store(i, x <= 0.0 ? 0.0 : x);
  }
}

void tanh_bwd_ref(const ActivationBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const double y = args.y.load(i);
    args.d_x.store(i, args.d_y.load(i) * (1.0 - y * y));
  }
}

void relu_bwd_ref(const ActivationBwdArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) args.d_x.store(i, args.y.load(i) > 0.0 ? args.d_y.load(i) : 0.0);
}

}  // namespace plimsoll
