#include "kernels/optimizer/adagrad_8bit.h"

#include <cmath>

#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/one_state_8bit.h"

namespace plimsoll {

void adagrad_8bit_ref(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  const double rate = adagrad_rate(args);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  update_one_state_8bit_ref(args, [&](double p, double gradient, double& v) {
    const double g = clip * gradient + args.weight_decay * p;
    v += g * g;
    return p - rate * g / (std::sqrt(v) + args.epsilon);
  });
}

}  // namespace plimsoll
