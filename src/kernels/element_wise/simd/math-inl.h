// exp, tanh and the normal distribution function on vectors of fp32; per target, included through
// hwy/foreach_target.h. Thread-safe: pure functions.
//
// Coefficients are minimax fits in 40 digits (exchange algorithm of Remez), of the relative error, rounded to
// fp32:
//   exp(r) = 1 + r + r^2 * P(r) on |r| <= ln(2)/2, P of degree 4: 3.1e-9 before rounding of coefficients and
//   arithmetic; Phi(-z) * exp(z^2 / 2) * (z + k) = P(s), s = (z - k) / (z + k), k = 3.5, on 0 <= z <= 13.2, P
//   of degree 9: 5.3e-9.
// The map s is that of Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <=
// x < infinity", Mathematics of Computation 36 (1981) 249-253. The reduction of exp is Cody and Waite's,
// ln(2) = 355/512 + remainder.
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

// x + low = n * ln(2) + r with n an integer; 2^n as fp32; exp(r) - 1.
struct ReducedExp {
  F32Vec power;
  F32Vec expm1_r;
};
// Requires: -87.3 <= x <= 88.3, |low| small beside ln(2).
HWY_INLINE ReducedExp reduce_exp(F32Vec x, F32Vec low) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const F32Vec n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  F32Vec r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  r = hn::Add(r, low);
  F32Vec p = hn::Set(d, 1.381446881e-03f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.368780434e-03f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166839417e-02f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.666652011e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.999999341e-01f));
  const auto biased = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return {hn::BitCast(d, hn::ShiftLeft<23>(biased)), hn::MulAdd(hn::Mul(r, r), p, r)};
}

// exp(x + low). Relative error below 1.5e-7. Requires: as reduce_exp.
HWY_INLINE F32Vec exp_in_range(F32Vec x, F32Vec low) {
  const ReducedExp e = reduce_exp(x, low);
  return hn::Mul(hn::Add(e.expm1_r, hn::Set(F32Tag(), 1.0f)), e.power);
}

// tanh(x) = e / (e + 2), e = exp(2|x|) - 1, with x's sign. Relative error below 3e-7 everywhere; NaN stays
// NaN.
HWY_INLINE F32Vec tanh_f32(F32Vec x) {
  const F32Tag d;
  const F32Vec twice = hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, 2.0f)), hn::Set(d, 40.0f));
  const ReducedExp e = reduce_exp(twice, hn::Zero(d));
  const F32Vec expm1 = hn::MulAdd(e.expm1_r, e.power, hn::Sub(e.power, hn::Set(d, 1.0f)));
  const F32Vec magnitude = hn::Div(expm1, hn::Add(expm1, hn::Set(d, 2.0f)));
  return hn::IfThenElse(hn::Eq(x, x), hn::CopySign(magnitude, x), x);
}

// Phi(x), and exp(-x^2 / 2) which it needs anyway. Relative error of both below 4e-7 for |x| < 12.9; beyond,
// the smaller tail is 0, less than the smallest normal fp32 away from the truth.
struct NormalDistribution {
  F32Vec cdf;
  F32Vec exp_half_square;
};
HWY_INLINE NormalDistribution normal_distribution(F32Vec x) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const F32Vec one = hn::Set(d, 1.0f);
  const F32Vec k = hn::Set(d, 3.5f);
  const F32Vec z = hn::Min(hn::Abs(x), hn::Set(d, 13.0f));
  // z^2 to twice the precision: an error of z^2 is relative to 1 in the exponential. The head has 12 bits,
  // its square is exact.
  const F32Vec head = hn::BitCast(d, hn::And(hn::BitCast(du, z), hn::Set(du, 0xfffff000u)));
  const F32Vec minus_half = hn::Set(d, -0.5f);
  const F32Vec low = hn::Mul(hn::Sub(z, head), hn::Add(z, head));
  F32Vec e = exp_in_range(hn::Mul(hn::Mul(head, head), minus_half), hn::Mul(low, minus_half));
  e = hn::IfThenElseZero(hn::Lt(z, hn::Set(d, 12.9f)), e);
  const F32Vec t = hn::Div(one, hn::Add(z, k));
  const F32Vec s = hn::Mul(hn::Sub(z, k), t);
  // Even and odd powers apart: two short chains instead of a long one.
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
  const F32Vec tail = hn::Mul(hn::Mul(hn::MulAdd(odd, s, even), t), e);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), e};
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_MATH_INL_H_
