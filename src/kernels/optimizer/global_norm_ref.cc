#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/tensor_scan.h"

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
  PLIMSOLL_CHECK(args.max_norm >= 0.0, "max_norm must not be negative, but is {}", args.max_norm);
  const double scale = args.scale ? args.scale.load(0) : 1.0;
  const double coefficient = args.max_norm / (args.norm.load(0) / scale + 1e-6);
  // This comparison is false for NaN, so a NaN norm gives a NaN coefficient.
  const double clamped = coefficient > 1.0 ? 1.0 : coefficient;
  args.coefficient.store(0, (args.max_norm == 0.0 ? 1.0 : clamped) / scale);
}

void clip_coefficient_cpu(const ClipCoefficientArgs& args) {
  clip_coefficient_ref(args);
}

void fill_ref(const FillArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) args.x.store(i, args.value);
}

void adjust_loss_scale_ref(const AdjustLossScaleArgs& args) {
  const double scale = args.scale.load(0);
  int32_t& good_steps = *args.good_steps.as<int32_t>();
  int32_t& skipped = *args.skipped.as<int32_t>();
  args.used_scale.store(0, scale);
  args.unscaled_norm.store(0, args.norm.load(0) / scale);
  if (args.finite.load(0) == 0.0) {
    good_steps = 0;
    ++skipped;
    args.scale.store(0, std::max(0.5 * scale, args.smallest));
  } else if (++good_steps >= args.growth_interval) {
    good_steps = 0;
    // Doubles the loss scale, unless its type cannot represent the result.
    args.scale.store(0, 2.0 * scale);
    if (!std::isfinite(args.scale.load(0))) args.scale.store(0, scale);
  }
  *args.skipped_out.as<int32_t>() = skipped;
}

void adjust_loss_scale_cpu(const AdjustLossScaleArgs& args) {
  adjust_loss_scale_ref(args);
}

}  // namespace plimsoll
