#include "base/check.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/update_frame_ref.h"

namespace plimsoll {

LionCoefficients lion_coefficients(const LionArgs& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 must be in [0, 1), but is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 must be in [0, 1), but is {}", args.beta2);
  const double lr = args.learning_rate.load(0);
  return {.lr = lr,
          .decay = lr * args.weight_decay,
          .beta1 = args.beta1,
          .beta2 = args.beta2,
          .clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0};
}

namespace {

// Returns a function that updates one element by the formula of lion.h.
auto lion_element(const LionArgs& args) {
  return [k = lion_coefficients(args)](double p, double gradient, double& m, double&) {
    const double g = k.clip * gradient;
    const double c = k.beta1 * m + (1.0 - k.beta1) * g;
    double sign = c;  // the sign of 0 is 0 and the sign of a NaN is that NaN
    if (c > 0.0) sign = 1.0;
    if (c < 0.0) sign = -1.0;
    m += (1.0 - k.beta2) * (g - m);
    return p - k.decay * p - k.lr * sign;
  };
}

}  // namespace

void lion_ref(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_ref(UpdateStates::kM, args, lion_element(args));
}

void lion_8bit_ref(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_ref(UpdateStates::kM, args, lion_element(args));
}

}  // namespace plimsoll
