#include "kernels/loss/bce_with_logits.h"

#include "device/cpu/simd_targets.h"
#include "kernels/loss/element_loss_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/bce_with_logits_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/loss/row_exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

double bce_row(const float* x, const float* labels, int64_t n) {
  const FloatTag tag;
  return sum_rows(x, labels, n, kBceSumBlock, [&](FloatVec v, FloatVec y) HWY_ATTR {
    const FloatVec e = exp_keeping_nan(hn::Neg(hn::Abs(v)));
    // Computes max(x, 0) - x y by a fused operation, which rounds only once. For a confident, correct prediction the two terms then cancel
    // exactly.
    const FloatVec linear = hn::NegMulAdd(v, y, hn::Max(v, hn::Zero(tag)));
    return hn::Add(linear, hn::Log1p(tag, e));
  });
}

// Computes the gradients of a row. d_x may be the same array as x.
void bce_bwd_row(const float* x, const float* labels, float* d_x, int64_t n, double scale) {
  const FloatTag tag;
  const FloatVec one = hn::Set(tag, 1.0f);
  const FloatVec scale_v = hn::Set(tag, static_cast<float>(scale));
  map_rows(x, labels, d_x, n, [&](FloatVec v, FloatVec y) HWY_ATTR {
    const FloatVec e = exp_keeping_nan(hn::Neg(hn::Abs(v)));
    const FloatVec numerator = hn::IfThenElse(hn::Ge(v, hn::Zero(tag)), one, e);
    const FloatVec sigmoid = hn::Div(numerator, hn::Add(one, e));
    return hn::Mul(hn::Sub(sigmoid, y), scale_v);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(bce_row);
HWY_EXPORT(bce_bwd_row);

void bce_with_logits_fwd_cpu(const BceWithLogitsFwdArgs& args) {
  element_loss_fwd_cpu(args, &HWY_DYNAMIC_DISPATCH(bce_row));
}

void bce_with_logits_bwd_cpu(const BceWithLogitsBwdArgs& args) {
  element_loss_bwd_cpu(args, 1.0, &HWY_DYNAMIC_DISPATCH(bce_bwd_row));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
