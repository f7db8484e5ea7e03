#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/update_frame_ref.h"

namespace plimsoll {

double adagrad_rate(const AdagradArgs& args) {
  const int64_t step = args.step.as<int64_t>()[0];
  PLIMSOLL_CHECK(step >= 1, "the steps of Adagrad are numbered from 1, but this is step {}", step);
  return args.learning_rate.load(0) / (1.0 + static_cast<double>(step - 1) * args.lr_decay);
}

namespace {

// Returns a function that updates one element by the formula of adagrad.h. The state m of the tensor is the sum of squares v of the
// formula.
auto adagrad_element(const AdagradArgs& args) {
  const double rate = adagrad_rate(args);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  return [rate, clip, weight_decay = args.weight_decay, epsilon = args.epsilon](double p, double gradient,
                                                                                double& v, double&) {
    const double g = clip * gradient + weight_decay * p;
    v += g * g;
    return p - rate * g / (std::sqrt(v) + epsilon);
  };
}

}  // namespace

void adagrad_ref(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_ref(UpdateStates::kM, args, adagrad_element(args));
}

void adagrad_8bit_ref(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_eight_bit_tensors_ref(UpdateStates::kM, args, adagrad_element(args));
}

}  // namespace plimsoll
