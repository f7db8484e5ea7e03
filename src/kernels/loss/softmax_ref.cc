#include <cmath>

#include "kernels/loss/softmax.h"

namespace plimsoll {
namespace {

double row_max(const ConstView& x, int64_t row, int64_t num_classes) {
  double max = x.load(row * num_classes);
  for (int64_t k = 1; k < num_classes; ++k) max = std::fmax(max, x.load(row * num_classes + k));
  return max;
}

double row_sum_exp(const ConstView& x, int64_t row, int64_t num_classes, double max) {
  double sum = 0.0;
  for (int64_t k = 0; k < num_classes; ++k) sum += std::exp(x.load(row * num_classes + k) - max);
  return sum;
}

}  // namespace

void log_softmax_fwd_ref(const SoftmaxFwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    const double max = row_max(args.x_BK, b, num_classes);
    const double log_sum = std::log(row_sum_exp(args.x_BK, b, num_classes, max));
    for (int64_t i = b * num_classes; i < (b + 1) * num_classes; ++i) {
      args.y_BK.store(i, args.x_BK.load(i) - max - log_sum);
    }
  }
}

void log_softmax_bwd_ref(const SoftmaxBwdArgs& args) {
  const int64_t num_classes = args.num_classes;
  for (int64_t b = 0; b < args.num_rows; ++b) {
    double sum = 0.0;
    for (int64_t i = b * num_classes; i < (b + 1) * num_classes; ++i) sum += args.d_y_BK.load(i);
    for (int64_t i = b * num_classes; i < (b + 1) * num_classes; ++i) {
      args.d_x_BK.store(i, args.d_y_BK.load(i) - std::exp(args.y_BK.load(i)) * sum);
    }
  }
}

}  // namespace plimsoll
