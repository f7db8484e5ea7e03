#include <algorithm>
#include <cmath>

#include "kernels/optimizer/loss_scale.h"

namespace plimsoll {

void adjust_loss_scale_ref(const AdjustLossScaleArgs& args) {
  float& scale = *args.scale.as<float>();
  int32_t& good_steps = *args.good_steps.as<int32_t>();
  int32_t& skipped = *args.skipped.as<int32_t>();
  args.used_scale.store(0, static_cast<double>(scale));
  args.unscaled_norm.store(0, args.norm.load(0) / static_cast<double>(scale));
  if (args.finite.load(0) == 0.0) {
    good_steps = 0;
    ++skipped;
    scale = std::max(0.5f * scale, static_cast<float>(args.smallest));
  } else if (++good_steps >= args.growth_interval) {
    good_steps = 0;
    if (std::isfinite(2.0f * scale)) scale *= 2.0f;
  }
  *args.skipped_out.as<int32_t>() = skipped;
}

void adjust_loss_scale_cpu(const AdjustLossScaleArgs& args) {
  adjust_loss_scale_ref(args);
}

}  // namespace plimsoll
