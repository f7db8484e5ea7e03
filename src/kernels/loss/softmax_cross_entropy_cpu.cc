#include "kernels/loss/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "device/cpu/simd_targets.h"
#include "kernels/loss/loss_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/softmax_cross_entropy_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/simd/vectors-inl.h"
#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// The maximum of a row and the sum of its exponentials, from which the loss and the gradient of the row are computed.
struct RowSum {
  float max;
  double sum;  // the sum of exp(x - max)
};
RowSum sum_of_row(const float* x, int64_t n) {
  const float max = row_max(x, n);
  return {max, row_sum_exp(x, n, max)};
}

// The options of the loss: the label smoothing and the coefficient of the z-loss.
struct LossForm {
  double smoothing;
  double z_coefficient;
};

// Returns the loss of one row. Logits are subtracted from the normalizer log Z in double, so that no digits of an fp32 difference cancel.
RowLoss loss_of_row(const float* x, int32_t label, int64_t n, const LossForm& form, const RowSum& row) {
  const double normalizer = static_cast<double>(row.max) + std::log(row.sum);
  RowLoss of_row{.loss = (1.0 - form.smoothing) * (normalizer - static_cast<double>(x[label]))};
  if (form.smoothing != 0.0) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; ++k) sum += normalizer - static_cast<double>(x[k]);
    of_row.loss += form.smoothing / static_cast<double>(n) * sum;
  }
  if (form.z_coefficient == 0.0) return of_row;
  of_row.z_loss = form.z_coefficient * normalizer * normalizer;
  of_row.loss += of_row.z_loss;
  return of_row;
}

RowLoss cross_entropy_row(const SoftmaxCrossEntropyFwdArgs& args, int64_t row, int32_t label) {
  const float* x = args.logits_BK.as<float>() + row * args.num_classes;
  return loss_of_row(x, label, args.num_classes, {args.label_smoothing, args.z_coefficient},
                     sum_of_row(x, args.num_classes));
}

// Computes the gradients of a row. `x` and `d_x` may be the same row.
template <typename T>
void gradient_of_row(const float* x, T* d_x, int32_t label, int64_t n, const LossForm& form, double scale,
                     const RowSum& row) {
  const F32Tag tag;
  const double label_logit = static_cast<double>(x[label]);
  const FloatVec max_v = hn::Set(tag, row.max);
  // The factor by which the z-loss multiplies each probability.
  const double factor =
      form.z_coefficient == 0.0
          ? 1.0
          : 1.0 + 2.0 * form.z_coefficient * (static_cast<double>(row.max) + std::log(row.sum));
  const FloatVec inverse = hn::Set(tag, static_cast<float>(factor / row.sum));
  const double off_target = form.smoothing / static_cast<double>(n);
  const FloatVec off_target_v = hn::Set(tag, static_cast<float>(off_target));
  const FloatVec scale_v = hn::Set(tag, static_cast<float>(scale));
  for_each_vector(tag, 0, n, [&](auto access, int64_t i) HWY_ATTR {
    const FloatVec p = hn::Mul(exp_keeping_nan(hn::Sub(access.load(tag, x + i), max_v)), inverse);
    access.store(tag, hn::Mul(hn::Sub(p, off_target_v), scale_v), d_x + i);
  });
  const double p = factor * (std::exp(label_logit - static_cast<double>(row.max)) / row.sum);
  View{d_x, DTypeOf<T>::value}.store(label,
                                     static_cast<float>((p - (1.0 - form.smoothing) - off_target) * scale));
}

void cross_entropy_bwd_row(const SoftmaxCrossEntropyBwdArgs& args, int64_t row, int32_t label, double scale) {
  const int64_t n = args.num_classes;
  const float* x = args.logits_BK.as<float>() + row * n;
  gradient_of_row(x, args.d_logits_BK.as<float>() + row * n, label, n,
                  {args.label_smoothing, args.z_coefficient}, scale, sum_of_row(x, n));
}

// Replaces a row of logits with their gradients and returns the loss of the row, if it is requested. bf16 logits are converted to fp32 in
// the buffer `wide`.
RowLoss cross_entropy_in_place_row(const SoftmaxCrossEntropyInPlaceArgs& args, int64_t row, int32_t label,
                                   double scale, float* wide) {
  const int64_t n = args.num_classes;
  const LossForm form{args.label_smoothing, args.z_coefficient};
  if (args.logits_BK.dtype == DType::kF32) {
    float* x = args.logits_BK.as<float>() + row * n;
    const RowSum sum = sum_of_row(x, n);
    const RowLoss loss = args.loss ? loss_of_row(x, label, n, form, sum) : RowLoss();
    gradient_of_row(x, x, label, n, form, scale, sum);
    return loss;
  }
  BF16* x = args.logits_BK.as<BF16>() + row * n;
  const F32Tag tag;
  for_each_vector(tag, 0, n, [&](auto access, int64_t i) HWY_ATTR {
    access.store(tag, access.load(tag, x + i), wide + i);
  });
  const RowSum sum = sum_of_row(wide, n);
  const RowLoss loss = args.loss ? loss_of_row(wide, label, n, form, sum) : RowLoss();
  gradient_of_row(wide, x, label, n, form, scale, sum);
  return loss;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(cross_entropy_bwd_row);
HWY_EXPORT(cross_entropy_in_place_row);

namespace {

void store_losses(const View& loss, const View& z_loss, const RowLoss& sum, double denominator,
                  Accumulate accumulate) {
  store_loss(loss, sum.loss / denominator, accumulate);
  if (z_loss) store_loss(z_loss, sum.z_loss / denominator, accumulate);
}

}  // namespace

void softmax_cross_entropy_fwd_cpu(const SoftmaxCrossEntropyFwdArgs& args) {
  const int64_t K = args.num_classes;
  const int32_t* labels = args.labels_B.as<int32_t>();
  float* row_loss = args.row_loss_B ? args.row_loss_B.as<float>() : nullptr;
  check_labels(labels, args.num_rows, K);
  const auto row_function = &HWY_DYNAMIC_DISPATCH(cross_entropy_row);
  const auto sum = sum_over_rows<RowLoss>(args.num_rows, K, [&](int64_t b) {
    const RowLoss of_row = labels[b] < 0 ? RowLoss() : row_function(args, b, labels[b]);
    if (row_loss != nullptr) row_loss[b] = static_cast<float>(of_row.loss);
    return of_row;
  });
  store_losses(args.loss, args.z_loss, sum, args.denominator.load(0), args.accumulate);
}

void softmax_cross_entropy_bwd_cpu(const SoftmaxCrossEntropyBwdArgs& args) {
  const int64_t K = args.num_classes;
  const int32_t* labels = args.labels_B.as<int32_t>();
  float* d_x = args.d_logits_BK.as<float>();
  check_labels(labels, args.num_rows, K);
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  const auto row_function = &HWY_DYNAMIC_DISPATCH(cross_entropy_bwd_row);
  for_each_row(args.num_rows, K, [&](int64_t b) {
    if (labels[b] < 0) {
      std::fill(d_x + b * K, d_x + (b + 1) * K, 0.0f);
    } else {
      row_function(args, b, labels[b], scale);
    }
  });
}

void softmax_cross_entropy_in_place_cpu(const SoftmaxCrossEntropyInPlaceArgs& args) {
  const int64_t K = args.num_classes;
  const int32_t* labels = args.labels_B.as<int32_t>();
  const bool widens = args.logits_BK.dtype != DType::kF32;
  PLIMSOLL_CHECK(
      !widens || (args.logits_BK.dtype == DType::kBF16 && args.wide_row),
      "logits that are not f32 must be bf16 and need scratch memory for a row in fp32, but they are {}{}",
      dtype_name(args.logits_BK.dtype), args.wide_row ? "" : " and the scratch memory is missing");
  check_labels(labels, args.num_rows, K);
  const double scale = args.d_loss.load(0) / args.denominator.load(0);
  const auto row_function = &HWY_DYNAMIC_DISPATCH(cross_entropy_in_place_row);
  const auto sum = sum_over_rows<RowLoss>(args.num_rows, K, [&](int64_t b, int thread) {
    if (labels[b] >= 0) {
      float* wide = widens ? args.wide_row.as<float>() + thread * cross_entropy_wide_row_floats(K) : nullptr;
      return row_function(args, b, labels[b], scale, wide);
    }
    const int64_t row_bytes = K * dtype_bytes(args.logits_BK.dtype);
    std::memset(static_cast<std::byte*>(args.logits_BK.data) + b * row_bytes, 0,
                static_cast<size_t>(row_bytes));
    return RowLoss();
  });
  if (args.loss) store_losses(args.loss, args.z_loss, sum, args.denominator.load(0), args.accumulate);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
