// exp2, tanh and the normal distribution function on vectors of fp32. Compiled once per instruction set
// through hwy/foreach_target.h. Thread-safe: pure functions.
//
// The coefficients are minimax fits of the relative error, computed in 40 digits (Remez exchange algorithm)
// and rounded to fp32:
//   2^f = 1 + f * P(f) on |f| <= 1/2, P of degree 5: 2.0e-9 before rounding of coefficients and arithmetic;
//   Phi(-z) * exp(z^2 / 2) * (z + k) = P(s), s = (z - k) / (z + k), k = 3.5, on 0 <= z <= 13.2,
//     P of degree 9: 5.3e-9.
// The map s is from Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x
// < infinity", Mathematics of Computation 36 (1981) 249-253.
#if defined(PLIMSOLL_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_MATH_INL_H_
#undef PLIMSOLL_KERNELS_MATH_INL_H_
#else
#define PLIMSOLL_KERNELS_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Computes 2^y = 2^n * (1 + fraction), where n is the integer nearest to y. `exponent` contains n in the exponent bits of a float.
struct Exp2Parts {
  hn::Vec<hn::RebindToSigned<F32Tag>> exponent;
  F32Vec fraction;
};
HWY_INLINE Exp2Parts exp2_parts(F32Vec y) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const F32Vec n = hn::Round(y);
  const F32Vec f = hn::Sub(y, n);
  F32Vec p = hn::Set(d, 1.535336967e-04f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.339887431e-03f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.618437330e-03f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550332471e-02f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402264791e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931472029e-01f));
  return {hn::ShiftLeft<23>(hn::ConvertTo(di, n)), hn::Mul(p, f)};
}

// Returns 2^y. The relative error is below 1.5e-7 for |y| <= 125; other results are undefined.
HWY_INLINE F32Vec exp2_in_range(F32Vec y) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const Exp2Parts e = exp2_parts(y);
  const F32Vec mantissa = hn::Add(e.fraction, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, mantissa), e.exponent));
}

// Returns tanh(x) = e / (e + 2), e = exp(2|x|) - 1, with the sign of x. The relative error is below 3.6e-7
// everywhere; NaN stays NaN.
HWY_INLINE F32Vec tanh_f32(F32Vec x) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const F32Vec one = hn::Set(d, 1.0f);
  // The constant is 2 * log2(e). Clamping to 40 is exact: 2^40 + 1 and 2^40 - 1 are the same fp32 number.
  const F32Vec y = hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, 2.88539008f)), hn::Set(d, 40.0f));
  const Exp2Parts parts = exp2_parts(y);
  const F32Vec power = hn::BitCast(d, hn::Add(hn::BitCast(di, one), parts.exponent));
  const F32Vec e = hn::MulAdd(parts.fraction, power, hn::Sub(power, one));
  const F32Vec magnitude = hn::Div(e, hn::Add(e, hn::Set(d, 2.0f)));
  return hn::IfThenElse(hn::Eq(x, x), hn::CopySign(magnitude, x), x);
}

// Returns 1 / x for normal x whose reciprocal is normal; other results are undefined. The relative error is below 1.5 * 2^-24. If the
// processor's estimate has 14 bits, one Newton step reduces its error to 2^-28, so that only two roundings matter; this takes half of the
// time of a division.
HWY_INLINE F32Vec reciprocal(F32Vec x) {
  const F32Tag d;
#if HWY_TARGET <= HWY_AVX3
  const F32Vec estimate = hn::ApproximateReciprocal(x);
  return hn::MulAdd(estimate, hn::NegMulAdd(x, estimate, hn::Set(d, 1.0f)), estimate);
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// The tail of the normal distribution at z = |x|: exp(-z^2 / 2), and Phi(-z) divided by it. For z < 13 the relative errors are below (4 +
// 2.5 z^2) * 2^-24 and 5 * 2^-24. For larger z the results are undefined; both tails are smaller than any normal fp32 there.
struct NormalTail {
  F32Vec exp_half_square;
  F32Vec ratio;
};
inline constexpr float kNormalTailEnd = 13.0f;
HWY_INLINE NormalTail normal_tail(F32Vec z) {
  const F32Tag d;
  const F32Vec k = hn::Set(d, 3.5f);
  // The constant is sqrt(log2(e) / 2).
  const F32Vec w = hn::Mul(z, hn::Set(d, 0.849321800f));
  const F32Vec e = exp2_in_range(hn::Neg(hn::Mul(w, w)));
  const F32Vec t = reciprocal(hn::Add(z, k));
  const F32Vec s = hn::Mul(hn::Sub(z, k), t);
  // The even and the odd powers of the polynomial are evaluated separately, which gives two short dependency chains instead of a long one.
  const F32Vec s2 = hn::Mul(s, s);
  F32Vec even = hn::Set(d, 4.320858233e-04f);
  F32Vec odd = hn::Set(d, 1.161139835e-04f);
  even = hn::MulAdd(even, s2, hn::Set(d, -3.181739465e-03f));
  odd = hn::MulAdd(odd, s2, hn::Set(d, -4.937259442e-04f));
  even = hn::MulAdd(even, s2, hn::Set(d, 1.740769032e-02f));
  odd = hn::MulAdd(odd, s2, hn::Set(d, 6.491070967e-03f));
  even = hn::MulAdd(even, s2, hn::Set(d, 3.154249559e-01f));
  odd = hn::MulAdd(odd, s2, hn::Set(d, -1.160526385e-01f));
  even = hn::MulAdd(even, s2, hn::Set(d, 7.444160753e-01f));
  odd = hn::MulAdd(odd, s2, hn::Set(d, -5.655617618e-01f));
  return {e, hn::Mul(hn::MulAdd(odd, s, even), t)};
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_MATH_INL_H_
