#include <cmath>

#include "base/check.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/count_correct.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"

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

void nll_fwd_ref(const NllFwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  double sum = 0.0;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = args.labels_B.as<int32_t>()[b];
    PLIMSOLL_CHECK(label < num_classes, "row {} has label {}, but there are only {} classes", b, label,
                   num_classes);
    if (label < 0) continue;
    double sum_log_p = 0.0;
    for (int64_t k = 0; k < num_classes; ++k) sum_log_p += args.y_BK.load(b * num_classes + k);
    sum -= (1.0 - args.label_smoothing) * args.y_BK.load(b * num_classes + label);
    // Without label smoothing this term is skipped instead of multiplied by 0: the logarithm of a probability of exactly 0 is -infinity,
    // and 0 times -infinity is NaN.
    if (args.label_smoothing > 0.0) {
      sum -= args.label_smoothing / static_cast<double>(num_classes) * sum_log_p;
    }
  }
  const double loss = sum / args.denominator.load(0);
  args.loss.store(0, args.accumulate == Accumulate::kAdd ? args.loss.load(0) + loss : loss);
}

void count_correct_ref(const CountCorrectArgs& args) {
  int32_t count = args.accumulate == Accumulate::kAdd ? args.count.as<int32_t>()[0] : 0;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = args.labels_B.as<int32_t>()[b];
    PLIMSOLL_CHECK(label < args.num_classes, "row {} has label {}, but there are only {} classes", b, label,
                   args.num_classes);
    if (label < 0) continue;
    const double limit = args.logits_BK.load(b * args.num_classes + label);
    bool is_correct = !std::isnan(limit);
    for (int64_t k = 0; k < args.num_classes; ++k) {
      const double logit = args.logits_BK.load(b * args.num_classes + k);
      if (logit > limit || (k < label && logit == limit)) is_correct = false;
    }
    count += is_correct ? 1 : 0;
  }
  args.count.as<int32_t>()[0] = count;
}

void nll_bwd_ref(const NllBwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const int32_t label = args.labels_B.as<int32_t>()[b];
    PLIMSOLL_CHECK(label < num_classes, "row {} has label {}, but there are only {} classes", b, label,
                   num_classes);
    for (int64_t k = 0; k < num_classes; ++k) {
      const double target = (k == label ? 1.0 - args.label_smoothing : 0.0) +
                            args.label_smoothing / static_cast<double>(num_classes);
      args.d_y_BK.store(b * num_classes + k, label < 0 ? 0.0 : -target * scale);
    }
  }
}

}  // namespace plimsoll
