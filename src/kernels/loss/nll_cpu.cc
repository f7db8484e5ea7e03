#include "kernels/loss/loss_rows.h"

#include <algorithm>
#include "kernels/loss/nll.h"

namespace plimsoll {

void nll_fwd_cpu(const NllFwdArgs& args) {
  const int64_t K = args.num_classes;
  const float* y = args.y_BK.as<float>();
  const int32_t* labels = args.labels_B.as<int32_t>();
  check_labels(labels, args.num_rows, K);
  const double off_target = args.label_smoothing / static_cast<double>(K);
  // Without label smoothing, the loss of a row reads only one number. The number of rows per thread depends on this estimated cost.
  const int64_t row_cost = args.label_smoothing > 0.0 ? K : 1;
  const double sum = sum_over_rows(args.num_rows, row_cost, [&](int64_t b) {
    if (labels[b] < 0) return 0.0;
    const float* row = y + b * K;
    double loss = -(1.0 - args.label_smoothing) * static_cast<double>(row[labels[b]]);
    if (args.label_smoothing > 0.0) {
      double sum_log_p = 0.0;
      for (int64_t k = 0; k < K; ++k) sum_log_p += static_cast<double>(row[k]);
      loss -= off_target * sum_log_p;
    }
    return loss;
  });
  store_loss(args.loss, sum / args.denominator.load(0), args.accumulate);
}

void nll_bwd_cpu(const NllBwdArgs& args) {
  const int64_t K = args.num_classes;
  const int32_t* labels = args.labels_B.as<int32_t>();
  float* d_y = args.d_y_BK.as<float>();
  check_labels(labels, args.num_rows, K);
  const double scale = -args.d_loss.load(0) / args.denominator.load(0);
  const double off_target = args.label_smoothing / static_cast<double>(K);
  for_each_row(args.num_rows, K, [&](int64_t b) {
    float* row = d_y + b * K;
    const bool real = labels[b] >= 0;
    std::fill(row, row + K, real ? static_cast<float>(off_target * scale) : 0.0f);
    if (real) row[labels[b]] = static_cast<float>((1.0 - args.label_smoothing + off_target) * scale);
  });
}

}  // namespace plimsoll
