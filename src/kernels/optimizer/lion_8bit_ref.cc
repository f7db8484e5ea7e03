#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion_8bit.h"
#include "kernels/optimizer/one_state_8bit.h"

namespace plimsoll {

void lion_8bit_ref(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionCoefficients k = lion_coefficients(args);
  update_one_state_8bit_ref(args, [&k](double p, double gradient, double& m) {
    const double g = k.clip * gradient;
    const double c = k.beta1 * m + (1.0 - k.beta1) * g;
    double sign = c;  // 0 and NaN are their own signs
    if (c > 0.0) sign = 1.0;
    if (c < 0.0) sign = -1.0;
    m += (1.0 - k.beta2) * (g - m);
    return p - k.decay * p - k.lr * sign;
  });
}

}  // namespace plimsoll
