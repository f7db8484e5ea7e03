#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/update_frame_ref.h"

namespace plimsoll {

AdamwCoefficients adamw_coefficients(const AdamwArgs& args) {
  const int64_t step = args.step.as<int64_t>()[0];
  PLIMSOLL_CHECK(step >= 1, "the steps of AdamW are numbered from 1, but this is step {}", step);
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 must be in [0, 1), but is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 must be in [0, 1), but is {}", args.beta2);
  const double lr = args.learning_rate.load(0);
  const double t = static_cast<double>(step);
  return {.decay = lr * args.weight_decay,
          .step_size = lr / (1.0 - std::pow(args.beta1, t)),
          .inverse_sqrt_bc2 = 1.0 / std::sqrt(1.0 - std::pow(args.beta2, t)),
          .one_minus_beta1 = 1.0 - args.beta1,
          .one_minus_beta2 = 1.0 - args.beta2,
          .clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0};
}

namespace {

// Returns a function that updates one element by the formula of adamw.h.
auto adamw_element(const AdamwArgs& args) {
  return [c = adamw_coefficients(args), epsilon = args.epsilon](double p, double gradient, double& m,
                                                                double& v) {
    const double g = c.clip * gradient;
    m += c.one_minus_beta1 * (g - m);
    v += c.one_minus_beta2 * (g * g - v);
    const double denominator = std::sqrt(v) * c.inverse_sqrt_bc2 + epsilon;
    return p - c.decay * p - c.step_size * m / denominator;
  };
}

}  // namespace

void adamw_ref(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_ref(UpdateStates::kMAndV, args, adamw_element(args));
}

void adamw_8bit_ref(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_ref(UpdateStates::kMAndV, args, adamw_element(args));
}

}  // namespace plimsoll
