#include "kernels/loss/mse.h"

#include <algorithm>

#include "device/cpu/simd_targets.h"
#include "kernels/loss/loss_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/mse_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

double mse_row(const float* x, const float* labels, int64_t n) {
  const DoubleTag doubles;
  const HalfFloatTag floats;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(doubles));
  DoubleVec sum = hn::Zero(doubles);
  for (int64_t i = 0; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    const auto a = whole ? hn::LoadU(floats, x + i) : load_first(floats, x + i, n - i, 0.0f);
    const auto b = whole ? hn::LoadU(floats, labels + i) : load_first(floats, labels + i, n - i, 0.0f);
    const DoubleVec difference = hn::Sub(hn::PromoteTo(doubles, a), hn::PromoteTo(doubles, b));
    sum = hn::MulAdd(difference, difference, sum);
  }
  return hn::GetLane(hn::SumOfLanes(doubles, sum));
}

// d_x may be x.
void mse_bwd_row(const float* x, const float* labels, float* d_x, int64_t n, double scale) {
  const FloatVec scale_v = hn::Set(FloatTag(), static_cast<float>(scale));
  map_rows(x, labels, d_x, n,
           [&](FloatVec v, FloatVec y) HWY_ATTR { return hn::Mul(hn::Sub(v, y), scale_v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(mse_row);
HWY_EXPORT(mse_bwd_row);

void mse_fwd_cpu(const MseFwdArgs& args) {
  PLIMSOLL_CHECK(args.num_real_rows <= args.num_rows, "{} real rows of {}", args.num_real_rows,
                 args.num_rows);
  const int64_t K = args.num_classes;
  const float* x = args.x_BK.as<float>();
  const float* labels = args.labels_BK.as<float>();
  const auto row_function = &HWY_DYNAMIC_DISPATCH(mse_row);
  const double sum = sum_over_rows(args.num_real_rows, K,
                                   [&](int64_t b) { return row_function(x + b * K, labels + b * K, K); });
  store_loss(args.loss, sum / (args.denominator.load(0) * static_cast<double>(K)), args.accumulate);
}

void mse_bwd_cpu(const MseBwdArgs& args) {
  PLIMSOLL_CHECK(args.num_real_rows <= args.num_rows, "{} real rows of {}", args.num_real_rows,
                 args.num_rows);
  const int64_t K = args.num_classes;
  const float* x = args.x_BK.as<float>();
  const float* labels = args.labels_BK.as<float>();
  float* d_x = args.d_x_BK.as<float>();
  const double scale = 2.0 * args.d_loss.load(0) / (args.denominator.load(0) * static_cast<double>(K));
  const auto row_function = &HWY_DYNAMIC_DISPATCH(mse_bwd_row);
  for_each_row(args.num_rows, K, [&](int64_t b) {
    if (b < args.num_real_rows) {
      row_function(x + b * K, labels + b * K, d_x + b * K, K, scale);
    } else {
      std::fill(d_x + b * K, d_x + (b + 1) * K, 0.0f);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
