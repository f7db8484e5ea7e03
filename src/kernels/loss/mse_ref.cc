#include "kernels/loss/mse.h"

namespace plimsoll {

void mse_fwd_ref(const MseFwdArgs& args) {
  double sum = 0.0;
  for (int64_t i = 0; i < args.num_real_rows * args.num_classes; ++i) {
    const double difference = args.x_BK.load(i) - args.labels_BK.load(i);
    sum += difference * difference;
  }
  const double loss = sum / (args.denominator.load(0) * static_cast<double>(args.num_classes));
  args.loss.store(0, args.accumulate == Accumulate::kAdd ? args.loss.load(0) + loss : loss);
}

void mse_bwd_ref(const MseBwdArgs& args) {
  const double scale =
      2.0 * args.d_loss.load(0) / (args.denominator.load(0) * static_cast<double>(args.num_classes));
  for (int64_t b = 0; b < args.num_rows; ++b) {
    for (int64_t i = b * args.num_classes; i < (b + 1) * args.num_classes; ++i) {
      args.d_x_BK.store(i,
                        b < args.num_real_rows ? (args.x_BK.load(i) - args.labels_BK.load(i)) * scale : 0.0);
    }
  }
}

}  // namespace plimsoll
