#include "kernels/loss/softmax.h"

#include <cmath>

#include "device/cpu/simd_targets.h"
#include "kernels/loss/loss_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/softmax_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

void log_softmax_row(const float* x, float* y, int64_t n) {
  const FloatTag tag;
  const float max = row_max(x, n);
  const FloatVec max_v = hn::Set(tag, max);
  const FloatVec log_sum = hn::Set(tag, static_cast<float>(std::log(row_sum_exp(x, n, max))));
  map_row(x, y, n, [&](FloatVec v) HWY_ATTR { return hn::Sub(hn::Sub(v, max_v), log_sum); });
}

void log_softmax_bwd_row(const float* y, const float* d_y, float* d_x, int64_t n) {
  const double sum = sum_rows(d_y, d_y, n, kSoftmaxSumBlock, [](FloatVec d, FloatVec) HWY_ATTR { return d; });
  const FloatVec sum_v = hn::Set(FloatTag(), static_cast<float>(sum));
  map_rows(y, d_y, d_x, n, [&](FloatVec log_p, FloatVec d) HWY_ATTR {
    return hn::NegMulAdd(exp_keeping_nan(log_p), sum_v, d);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(log_softmax_row);
HWY_EXPORT(log_softmax_bwd_row);

void log_softmax_fwd_cpu(const SoftmaxFwdArgs& args) {
  const int64_t K = args.num_classes;
  const float* x = args.x_BK.as<float>();
  float* y = args.y_BK.as<float>();
  const auto row_function = &HWY_DYNAMIC_DISPATCH(log_softmax_row);
  for_each_row(args.num_rows, K, [&](int64_t b) { row_function(x + b * K, y + b * K, K); });
}

void log_softmax_bwd_cpu(const SoftmaxBwdArgs& args) {
  const int64_t K = args.num_classes;
  const float* y = args.y_BK.as<float>();
  const float* d_y = args.d_y_BK.as<float>();
  float* d_x = args.d_x_BK.as<float>();
  const auto row_function = &HWY_DYNAMIC_DISPATCH(log_softmax_bwd_row);
  for_each_row(args.num_rows, K, [&](int64_t b) { row_function(y + b * K, d_y + b * K, d_x + b * K, K); });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
