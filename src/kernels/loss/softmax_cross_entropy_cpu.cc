#include "kernels/loss/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/simd_targets.h"
#include "kernels/loss/loss_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/softmax_cross_entropy_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the loss of one row. Its terms are differences from the normalizer in double, so nothing cancels in
// fp32.
double cross_entropy_row(const float* x, int32_t label, int64_t n, double smoothing) {
  const float max = row_max(x, n);
  const double normalizer = static_cast<double>(max) + std::log(row_sum_exp(x, n, max));
  const double loss = (1.0 - smoothing) * (normalizer - static_cast<double>(x[label]));
  if (smoothing == 0.0) return loss;
  double sum = 0.0;
  for (int64_t k = 0; k < n; ++k) sum += normalizer - static_cast<double>(x[k]);
  return loss + smoothing / static_cast<double>(n) * sum;
}

// d_x may be x.
void cross_entropy_bwd_row(const float* x, float* d_x, int32_t label, int64_t n, double smoothing,
                           double scale) {
  const FloatTag tag;
  const double label_logit = static_cast<double>(x[label]);
  const float max = row_max(x, n);
  const double sum = row_sum_exp(x, n, max);
  const FloatVec max_v = hn::Set(tag, max);
  const FloatVec inverse = hn::Set(tag, static_cast<float>(1.0 / sum));
  const double off_target = smoothing / static_cast<double>(n);
  const FloatVec off_target_v = hn::Set(tag, static_cast<float>(off_target));
  const FloatVec scale_v = hn::Set(tag, static_cast<float>(scale));
  map_row(x, d_x, n, [&](FloatVec v) HWY_ATTR {
    const FloatVec p = hn::Mul(exp_keeping_nan(hn::Sub(v, max_v)), inverse);
    return hn::Mul(hn::Sub(p, off_target_v), scale_v);
  });
  const double p = std::exp(label_logit - static_cast<double>(max)) / sum;
  d_x[label] = static_cast<float>((p - (1.0 - smoothing) - off_target) * scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(cross_entropy_bwd_row);

void softmax_cross_entropy_fwd_cpu(const SoftmaxCrossEntropyFwdArgs& args) {
  const int64_t K = args.num_classes;
  const float* x = args.logits_BK.as<float>();
  const int32_t* labels = args.labels_B.as<int32_t>();
  float* row_loss = args.row_loss_B ? args.row_loss_B.as<float>() : nullptr;
  check_labels(labels, args.num_rows, K);
  const auto row_function = &HWY_DYNAMIC_DISPATCH(cross_entropy_row);
  const double sum = sum_over_rows(args.num_rows, K, [&](int64_t b) {
    const double loss = labels[b] < 0 ? 0.0 : row_function(x + b * K, labels[b], K, args.label_smoothing);
    if (row_loss != nullptr) row_loss[b] = static_cast<float>(loss);
    return loss;
  });
  store_loss(args.loss, sum / args.denominator.load(0), args.accumulate);
}

void softmax_cross_entropy_bwd_cpu(const SoftmaxCrossEntropyBwdArgs& args) {
  const int64_t K = args.num_classes;
  const float* x = args.logits_BK.as<float>();
  const int32_t* labels = args.labels_B.as<int32_t>();
  float* d_x = args.d_logits_BK.as<float>();
  check_labels(labels, args.num_rows, K);
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  const auto row_function = &HWY_DYNAMIC_DISPATCH(cross_entropy_bwd_row);
  for_each_row(args.num_rows, K, [&](int64_t b) {
    if (labels[b] < 0) {
      std::fill(d_x + b * K, d_x + (b + 1) * K, 0.0f);
    } else {
      row_function(x + b * K, d_x + b * K, labels[b], K, args.label_smoothing, scale);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
