#include "base/check.h"
#include "kernels/loss/nll.h"

namespace plimsoll {

void nll_fwd_ref(const NllFwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  double sum = 0.0;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = args.labels_B.as<int32_t>()[b];
    PLIMSOLL_CHECK(label < num_classes, "row {} has label {}, there are {} classes", b, label, num_classes);
    if (label < 0) continue;
    double sum_log_p = 0.0;
    for (int64_t k = 0; k < num_classes; ++k) sum_log_p += args.y_BK.load(b * num_classes + k);
    sum -= (1.0 - args.label_smoothing) * args.y_BK.load(b * num_classes + label);
    // A probability of exactly 0 has an infinite logarithm, which must not be multiplied by 0.
    if (args.label_smoothing > 0.0) {
      sum -= args.label_smoothing / static_cast<double>(num_classes) * sum_log_p;
    }
  }
  const double loss = sum / args.denominator.load(0);
  args.loss.store(0, args.accumulate == Accumulate::kAdd ? args.loss.load(0) + loss : loss);
}

void nll_bwd_ref(const NllBwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = args.labels_B.as<int32_t>()[b];
    PLIMSOLL_CHECK(label < num_classes, "row {} has label {}, there are {} classes", b, label, num_classes);
    for (int64_t k = 0; k < num_classes; ++k) {
      const double target = (k == label ? 1.0 - args.label_smoothing : 0.0) +
                            args.label_smoothing / static_cast<double>(num_classes);
      args.d_y_BK.store(b * num_classes + k, label < 0 ? 0.0 : -target * scale);
    }
  }
}

}  // namespace plimsoll
