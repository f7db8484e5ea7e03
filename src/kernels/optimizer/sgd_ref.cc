#include "base/check.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/update_frame_ref.h"

namespace plimsoll {
namespace {

// Returns a function that updates one element by the formula of sgd.h.
auto sgd_element(const SgdArgs& args) {
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0,
                 "SGD with Nesterov needs momentum above 0");
  const double lr = args.learning_rate.load(0);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  const double momentum = args.momentum;
  const bool is_first_step = momentum != 0.0 && args.step.as<int64_t>()[0] == 1;
  const bool is_nesterov = args.nesterov == Nesterov::kOn;
  return [=, weight_decay = args.weight_decay](double p, double gradient, double& m, double&) {
    const double g = clip * gradient + weight_decay * p;
    double direction = g;
    if (momentum != 0.0) {
      m = is_first_step ? g : momentum * m + g;
      direction = is_nesterov ? g + momentum * m : m;
    }
    return p - lr * direction;
  };
}

}  // namespace

void sgd_ref(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  update_tensors_ref(args.momentum != 0.0 ? UpdateStates::kM : UpdateStates::kNone, args, sgd_element(args));
}

void sgd_8bit_ref(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD needs momentum above 0, but it is {}", args.momentum);
  update_eight_bit_tensors_ref(UpdateStates::kM, args, sgd_element(args));
}

}  // namespace plimsoll
