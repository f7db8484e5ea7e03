#include "kernels/optimizer/sgd_8bit.h"

#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/one_state_8bit.h"

namespace plimsoll {

void sgd_8bit_ref(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD has a momentum, this one is {}", args.momentum);
  const double lr = args.learning_rate.load(0);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  const bool first_step = args.step.as<int64_t>()[0] == 1;
  update_one_state_8bit_ref(args, [&](double p, double gradient, double& m) {
    const double g = clip * gradient + args.weight_decay * p;
    m = first_step ? g : args.momentum * m + g;
    return p - lr * (args.nesterov == Nesterov::kOn ? g + args.momentum * m : m);
  });
}

}  // namespace plimsoll
