#include <cmath>

#include "kernels/loss/bce_with_logits.h"

namespace plimsoll {

void bce_with_logits_fwd_ref(const BceWithLogitsFwdArgs& args) {
  double sum = 0.0;
  for (int64_t i = 0; i < args.num_real_rows * args.num_classes; ++i) {
    const double x = args.x_BK.load(i);
    const double y = args.labels_BK.load(i);
    sum += (x > 0.0 ? x : 0.0) - x * y + std::log1p(std::exp(-std::fabs(x)));
  }
  const double loss = sum / (args.denominator.load(0) * static_cast<double>(args.num_classes));
  args.loss.store(0, args.accumulate == Accumulate::kAdd ? args.loss.load(0) + loss : loss);
}

void bce_with_logits_bwd_ref(const BceWithLogitsBwdArgs& args) {
  const double scale =
      args.d_loss.load(0) / (args.denominator.load(0) * static_cast<double>(args.num_classes));
  for (int64_t b = 0; b < args.num_rows; ++b) {
    for (int64_t i = b * args.num_classes; i < (b + 1) * args.num_classes; ++i) {
      double gradient = 0.0;
      if (b < args.num_real_rows) {
        const double e = std::exp(-std::fabs(args.x_BK.load(i)));
        const double sigmoid = (args.x_BK.load(i) >= 0.0 ? 1.0 : e) / (1.0 + e);
        gradient = (sigmoid - args.labels_BK.load(i)) * scale;
      }
      args.d_x_BK.store(i, gradient);
    }
  }
}

}  // namespace plimsoll
