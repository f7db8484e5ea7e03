// The activation functions and their slopes on vectors of fp32. Compiled once per instruction set
// through hwy/foreach_target.h. Thread-safe: pure functions. gelu.h has the formulas and the error
// bounds.
#if defined(PLIMSOLL_KERNELS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_ACTIVATIONS_INL_H_
#undef PLIMSOLL_KERNELS_ACTIVATIONS_INL_H_
#else
#define PLIMSOLL_KERNELS_ACTIVATIONS_INL_H_
#endif

#include <hwy/highway.h>

#include "base/activation_names.h"
#include "kernels/element_wise/simd/math-inl.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// gelu(x) = max(x, 0) - z * Phi(-z) and gelu'(x) = step(x) + sign(x) * (z * phi(z) - Phi(-z)) with z = |x|.
// The products with Phi and phi are computed directly, not as differences. Comparisons with NaN are false, so NaN is passed through.
struct GeluForm {
  static HWY_INLINE F32Vec value(F32Vec x) {
    const F32Tag d;
    const F32Vec z = hn::Abs(x);
    const NormalTail normal = normal_tail(z);
    const F32Vec tail = hn::IfThenZeroElse(hn::Ge(z, hn::Set(d, kNormalTailEnd)),
                                           hn::Mul(normal.ratio, normal.exp_half_square));
    return hn::NegMulAdd(z, tail, hn::Max(x, hn::Zero(d)));
  }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const F32Vec z = hn::Abs(x);
    const NormalTail normal = normal_tail(z);
    // phi(z) = exp(-z^2 / 2) / sqrt(2 pi); the constant is 1 / sqrt(2 pi).
    const F32Vec difference = hn::MulSub(z, hn::Set(d, 0.398942280f), normal.ratio);
    const F32Vec h = hn::IfThenZeroElse(hn::Ge(z, hn::Set(d, kNormalTailEnd)),
                                        hn::Mul(difference, normal.exp_half_square));
    const auto negative = hn::Lt(x, hn::Zero(d));
    return hn::IfThenElse(negative, hn::Neg(h), hn::Add(h, hn::Set(d, 1.0f)));
  }
};

// The logistic function that the tanh form of GELU and SiLU have in common: gate = 1 / (1 + e) with e = exp(-v) = 2^y. For |y| > 125 either
// gate or e is below (or almost below) the smallest normal number and is set to 0. |x| is clamped where larger values no longer change the
// result, and before a term overflows.
struct Gate {
  F32Vec x, gate, e;
};
HWY_INLINE F32Vec cut_to(F32Vec x, float limit) {
  return hn::CopySign(hn::Min(hn::Abs(x), hn::Set(F32Tag(), limit)), x);
}
HWY_INLINE Gate gate_of(F32Vec cut, F32Vec y) {
  const F32Tag d;
  const F32Vec edge = hn::Set(d, 125.0f);
  const F32Vec e = exp2_in_range(hn::Max(hn::Min(y, edge), hn::Neg(edge)));
  const F32Vec gate = reciprocal(hn::Add(e, hn::Set(d, 1.0f)));
  return {cut, hn::IfThenElseZero(hn::Lt(y, edge), gate), hn::IfThenElseZero(hn::Lt(hn::Neg(edge), y), e)};
}
// Returns gate + x * gate * (1 - gate) * v'(x). For NaN, x == x is false, so NaN is passed through.
HWY_INLINE F32Vec gated_slope(F32Vec x, const Gate& g, F32Vec d_v) {
  const F32Vec d_gate = hn::Mul(hn::Mul(hn::Mul(g.e, g.gate), g.gate), d_v);
  return hn::IfThenElse(hn::Eq(x, x), hn::MulAdd(g.x, d_gate, g.gate), x);
}

// GELU in its tanh form: x * gate with v = 2 sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanhForm {
  static HWY_INLINE Gate gate(F32Vec x) {
    const F32Tag d;
    const F32Vec cut = cut_to(x, 15.0f);
    const F32Vec square = hn::Mul(cut, cut);
    // The two constants are 2 * sqrt(2/pi) * log2(e), and 0.044715 times this number.
    const F32Vec slope = hn::NegMulAdd(square, hn::Set(d, 0.102943240f), hn::Set(d, -2.30220819f));
    return gate_of(cut, hn::Mul(cut, slope));
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, gate(x).gate); }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const Gate g = gate(x);
    const F32Vec square = hn::Mul(g.x, g.x);
    return gated_slope(x, g, hn::MulAdd(square, hn::Set(d, 0.214064449f), hn::Set(d, 1.59576912f)));
  }
};

// SiLU: x * gate with v = x.
struct SiluForm {
  static HWY_INLINE Gate gate(F32Vec x) {
    const F32Vec cut = cut_to(x, 100.0f);
    return gate_of(cut, hn::Mul(cut, hn::Set(F32Tag(), -1.44269504f)));  // the constant is -log2(e)
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, gate(x).gate); }
  static HWY_INLINE F32Vec slope(F32Vec x) { return gated_slope(x, gate(x), hn::Set(F32Tag(), 1.0f)); }
};

// Computes ReLU and its slope. Comparisons with NaN are false, so both functions pass NaN through.
struct ReluForm {
  static HWY_INLINE F32Vec value(F32Vec x) {
    const F32Vec zero = hn::Zero(F32Tag());
    return hn::IfThenElse(hn::Le(x, zero), zero, x);
  }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Tag d;
    const F32Vec step = hn::IfThenElseZero(hn::Lt(hn::Zero(d), x), hn::Set(d, 1.0f));
    return hn::IfThenElse(hn::Eq(x, x), step, x);
  }
};

struct TanhForm {
  static HWY_INLINE F32Vec value(F32Vec x) { return tanh_f32(x); }
  static HWY_INLINE F32Vec slope(F32Vec x) {
    const F32Vec y = tanh_f32(x);
    return hn::NegMulAdd(y, y, hn::Set(F32Tag(), 1.0f));
  }
};

// Calls body with an object that has the functions for this activation and its slope.
template <class Body>
HWY_INLINE void with_form(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kGelu:
      return body(GeluForm{});
    case Activation::kGeluTanh:
      return body(GeluTanhForm{});
    case Activation::kRelu:
      return body(ReluForm{});
    case Activation::kSilu:
      return body(SiluForm{});
    case Activation::kTanh:
      return body(TanhForm{});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_ACTIVATIONS_INL_H_
