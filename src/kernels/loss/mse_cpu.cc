#include "kernels/loss/mse.h"

#include "device/cpu/simd_targets.h"
#include "kernels/loss/element_loss_cpu.h"

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

// Computes the gradients of a row. d_x may be the same array as x.
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
  element_loss_fwd_cpu(args, &HWY_DYNAMIC_DISPATCH(mse_row));
}

void mse_bwd_cpu(const MseBwdArgs& args) {
  element_loss_bwd_cpu(args, 2.0, &HWY_DYNAMIC_DISPATCH(mse_bwd_row));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
