#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {

LionCoefficients lion_coefficients(const LionArgs& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 is {}", args.beta2);
  const double lr = args.learning_rate.load(0);
  return {.lr = lr,
          .decay = lr * args.weight_decay,
          .beta1 = args.beta1,
          .beta2 = args.beta2,
          .clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0};
}

void lion_ref(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionCoefficients k = lion_coefficients(args);
  for (size_t index = 0; index < args.tensors.size(); ++index) {
    const OptimizerTensor& tensor = args.tensors[index];
    const RandomSite noise = noise_of(args, index);
    for (int64_t i = 0; i < tensor.count; ++i) {
      const double g = k.clip * tensor.grad.load(i);
      const double m = tensor.m.load(i);
      const double p = tensor.param.load(i);
      const double c = k.beta1 * m + (1.0 - k.beta1) * g;
      double sign = c;  // 0 and NaN are their own signs
      if (c > 0.0) sign = 1.0;
      if (c < 0.0) sign = -1.0;
      tensor.m.store(i, m + (1.0 - k.beta2) * (g - m));
      store_parameter(tensor, i, p - k.decay * p - k.lr * sign, noise);
    }
  }
}

}  // namespace plimsoll
