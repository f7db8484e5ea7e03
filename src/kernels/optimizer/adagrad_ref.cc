#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {

double adagrad_rate(const AdagradArgs& args) {
  const int64_t step = args.step.as<int64_t>()[0];
  PLIMSOLL_CHECK(step >= 1, "Adagrad's first update is step 1, this one is {}", step);
  return args.learning_rate.load(0) / (1.0 + static_cast<double>(step - 1) * args.lr_decay);
}

void adagrad_ref(const AdagradArgs& args) {
  if (!update_allowed(args.finite)) return;
  const double rate = adagrad_rate(args);
  const double clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0;
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    const RandomSite noise = noise_of(args, k);
    for (int64_t i = 0; i < tensor.count; ++i) {
      const double p = tensor.param.load(i);
      const double g = clip * tensor.grad.load(i) + args.weight_decay * p;
      const double v = tensor.m.load(i) + g * g;
      tensor.m.store(i, v);
      store_parameter(tensor, i, p - rate * g / (std::sqrt(v) + args.epsilon), noise);
    }
  }
}

}  // namespace plimsoll
