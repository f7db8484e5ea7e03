#include <cmath>

#include "base/check.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {
namespace {

// Returns log(sum_k exp(x_k)) of one row, without overflow.
double log_sum_exp(const ConstView& x, int64_t row, int64_t num_classes) {
  double max = x.load(row * num_classes);
  for (int64_t k = 1; k < num_classes; ++k) max = std::fmax(max, x.load(row * num_classes + k));
  double sum = 0.0;
  for (int64_t k = 0; k < num_classes; ++k) sum += std::exp(x.load(row * num_classes + k) - max);
  return max + std::log(sum);
}

int32_t checked_label(const ConstView& labels, int64_t row, int64_t num_classes) {
  const int32_t label = labels.as<int32_t>()[row];
  PLIMSOLL_CHECK(label < num_classes, "row {} has label {}, but there are only {} classes", row, label,
                 num_classes);
  return label;
}

}  // namespace

void softmax_cross_entropy_fwd_ref(const SoftmaxCrossEntropyFwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  const double smoothing = args.label_smoothing;
  double sum = 0.0, z_sum = 0.0;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = checked_label(args.labels_B, b, num_classes);
    double row_loss = 0.0;
    if (label >= 0) {
      const double normalizer = log_sum_exp(args.logits_BK, b, num_classes);
      double sum_log_p = 0.0;
      for (int64_t k = 0; k < num_classes; ++k)
        sum_log_p += args.logits_BK.load(b * num_classes + k) - normalizer;
      const double log_p = args.logits_BK.load(b * num_classes + label) - normalizer;
      row_loss = -(1.0 - smoothing) * log_p;
      if (smoothing > 0.0) row_loss -= smoothing / static_cast<double>(num_classes) * sum_log_p;
      const double z_loss = args.z_coefficient * normalizer * normalizer;
      row_loss += z_loss;
      z_sum += z_loss;
    }
    if (args.row_loss_B) args.row_loss_B.store(b, row_loss);
    sum += row_loss;
  }
  const auto store = [&](const View& to, double of_rows) {
    const double loss = of_rows / args.denominator.load(0);
    to.store(0, args.accumulate == Accumulate::kAdd ? to.load(0) + loss : loss);
  };
  store(args.loss, sum);
  if (args.z_loss) store(args.z_loss, z_sum);
}

void softmax_cross_entropy_bwd_ref(const SoftmaxCrossEntropyBwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  const double smoothing = args.label_smoothing;
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = checked_label(args.labels_B, b, num_classes);
    const double normalizer = label < 0 ? 0.0 : log_sum_exp(args.logits_BK, b, num_classes);
    const double factor = 1.0 + 2.0 * args.z_coefficient * normalizer;
    for (int64_t k = 0; k < num_classes; ++k) {
      const int64_t i = b * num_classes + k;
      const double target =
          (k == label ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(num_classes);
      args.d_logits_BK.store(
          i, label < 0 ? 0.0 : (factor * std::exp(args.logits_BK.load(i) - normalizer) - target) * scale);
    }
  }
}

}  // namespace plimsoll
