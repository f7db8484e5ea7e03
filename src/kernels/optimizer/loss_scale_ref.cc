#include <algorithm>
#include <cmath>

#include "kernels/optimizer/loss_scale.h"

namespace plimsoll {

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
    // The scale stays if its type cannot represent twice its value.
    args.scale.store(0, 2.0 * scale);
    if (!std::isfinite(args.scale.load(0))) args.scale.store(0, scale);
  }
  *args.skipped_out.as<int32_t>() = skipped;
}

void adjust_loss_scale_cpu(const AdjustLossScaleArgs& args) {
  adjust_loss_scale_ref(args);
}

}  // namespace plimsoll
