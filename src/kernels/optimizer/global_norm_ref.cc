#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/global_norm.h"

namespace plimsoll {

void global_norm_ref(const GlobalNormArgs& args) {
  double sum = 0.0;
  int64_t first_bad = -1;
  for (size_t i = 0; i < args.tensors.size(); ++i) {
    for (int64_t j = 0; j < args.tensors[i].count; ++j) {
      const double g = args.tensors[i].grad.load(j);
      sum += g * g;
      if (!std::isfinite(g) && first_bad < 0) first_bad = static_cast<int64_t>(i);
    }
  }
  const bool loss_is_finite = !args.loss || std::isfinite(args.loss.load(0));
  args.norm.store(0, std::sqrt(sum));
  if (args.finite) args.finite.store(0, first_bad < 0 && loss_is_finite ? 1.0 : 0.0);
  if (args.first_bad) args.first_bad.as<int64_t>()[0] = first_bad;
}

void clip_coefficient_ref(const ClipCoefficientArgs& args) {
  PLIMSOLL_CHECK(args.max_norm >= 0.0, "max_norm is {}", args.max_norm);
  const double scale = args.scale ? args.scale.load(0) : 1.0;
  const double coefficient = args.max_norm / (args.norm.load(0) / scale + 1e-6);
  // This comparison is false for NaN, so a NaN norm gives a NaN coefficient.
  const double clamped = coefficient > 1.0 ? 1.0 : coefficient;
  args.coefficient.store(0, (args.max_norm == 0.0 ? 1.0 : clamped) / scale);
}

void clip_coefficient_cpu(const ClipCoefficientArgs& args) {
  clip_coefficient_ref(args);
}

}  // namespace plimsoll
