#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/parameter_ref.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {

void sgd_ref(const SgdArgs& args) {
  if (!update_allowed(args.finite)) return;
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0, "Nesterov needs a momentum");
  const double lr = args.learning_rate.load(0);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  const bool has_momentum = args.momentum != 0.0;
  const bool first_step = has_momentum && args.step.as<int64_t>()[0] == 1;
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    const RandomSite noise = noise_of(args, k);
    for (int64_t i = 0; i < tensor.count; ++i) {
      const double p = load_parameter(tensor, i);
      const double g = clip * tensor.grad.load(i) + args.weight_decay * p;
      double direction = g;
      if (has_momentum) {
        const double m = first_step ? g : args.momentum * tensor.m.load(i) + g;
        tensor.m.store(i, m);
        direction = args.nesterov == Nesterov::kOn ? g + args.momentum * m : m;
      }
      store_parameter(tensor, i, p - lr * direction, noise);
    }
  }
}

}  // namespace plimsoll
