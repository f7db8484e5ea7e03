#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {

bool update_allowed(ConstView finite) {
  return !finite || finite.load(0) != 0.0;
}

AdamwCoefficients adamw_coefficients(const AdamwArgs& args) {
  const int64_t step = args.step.as<int64_t>()[0];
  PLIMSOLL_CHECK(step >= 1, "AdamW's first update is step 1, this one is {}", step);
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 is {}", args.beta2);
  const double lr = args.learning_rate.load(0);
  const double t = static_cast<double>(step);
  return {.decay = lr * args.weight_decay,
          .step_size = lr / (1.0 - std::pow(args.beta1, t)),
          .inverse_sqrt_bc2 = 1.0 / std::sqrt(1.0 - std::pow(args.beta2, t)),
          .one_minus_beta1 = 1.0 - args.beta1,
          .one_minus_beta2 = 1.0 - args.beta2,
          .clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0};
}

void adamw_ref(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdamwCoefficients c = adamw_coefficients(args);
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    const RandomSite noise = noise_of(args, k);
    for (int64_t i = 0; i < tensor.count; ++i) {
      const double g = c.clip * tensor.grad.load(i);
      const double m = tensor.m.load(i) + c.one_minus_beta1 * (g - tensor.m.load(i));
      const double v = tensor.v.load(i) + c.one_minus_beta2 * (g * g - tensor.v.load(i));
      const double p = load_parameter(tensor, i);
      const double denominator = std::sqrt(v) * c.inverse_sqrt_bc2 + args.epsilon;
      const double updated = p - c.decay * p - c.step_size * m / denominator;
      tensor.m.store(i, m);
      if (tensor.v.dtype == DType::kBF16) {
        const uint16_t number =
            random_half(noise_of_second_moment(noise), static_cast<uint64_t>(tensor.first + i));
        tensor.v.as<BF16>()[i].bits = round_stochastically(static_cast<float>(v), number);
      } else {
        tensor.v.store(i, v);
      }
      store_parameter(tensor, i, updated, noise);
    }
  }
}

}  // namespace plimsoll
