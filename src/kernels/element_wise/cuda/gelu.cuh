// The activations of gelu.h and their derivatives in fp32 for CUDA kernels, within its bounds. Thread-safe: no state.
//
// The erf form follows the CPU kernel. It computes the small quantity z * Phi(-z), z = |x|, directly, from
// exp(-z^2 / 2) and from Phi(-z) exp(z^2 / 2) (z + k), a polynomial in s = (z - k) / (z + k) with k = 3.5;
// simd/math-inl.h gives the source of this map. For fp32 the minimax coefficients are those of that file. The
// kernels for 16-bit activations are limited by arithmetic as much as by memory, so they use a polynomial of
// degree 5 (relative error 1.72e-5), and s = 1 - 2k / (z + k) saves an instruction. 2^x and 1/x are the
// hardware's (2 ulp and 1 ulp). Results below the smallest normal number become 0, from z = 13.2 on.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/element_wise/gelu.h"

namespace plimsoll::cuda {

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The tail of the normal distribution at z = |x|: exp(-z^2 / 2), and Phi(-z) divided by it.
struct NormalTail {
  float exp_half_square;
  float ratio;
};

struct TailForF32 {
  static __device__ __forceinline__ float ratio(float z, float t) {
    const float s = (z - 3.5f) * t;
    const float s2 = s * s;
    float even = 4.320858233e-04f;
    float odd = 1.161139835e-04f;
    even = fmaf(even, s2, -3.181739465e-03f);
    odd = fmaf(odd, s2, -4.937259442e-04f);
    even = fmaf(even, s2, 1.740769032e-02f);
    odd = fmaf(odd, s2, 6.491070967e-03f);
    even = fmaf(even, s2, 3.154249559e-01f);
    odd = fmaf(odd, s2, -1.160526385e-01f);
    even = fmaf(even, s2, 7.444160753e-01f);
    odd = fmaf(odd, s2, -5.655617618e-01f);
    return fmaf(odd, s, even) * t;
  }
};

struct TailFor16Bits {
  static __device__ __forceinline__ float ratio(float, float t) {
    const float s = fmaf(t, -7.0f, 1.0f);
    float p = 8.217894472e-03f;
    p = fmaf(p, s, 1.569786295e-02f);
    p = fmaf(p, s, -1.169423014e-01f);
    p = fmaf(p, s, 3.157183528e-01f);
    p = fmaf(p, s, -5.654827356e-01f);
    p = fmaf(p, s, 7.444066405e-01f);
    return p * t;
  }
};

template <class Tail>
__device__ __forceinline__ NormalTail normal_tail(float z) {
  const float w = z * 0.849321800f;  // the constant is sqrt(log2(e) / 2)
  return {fast_exp2(-(w * w)), Tail::ratio(z, fast_reciprocal(z + 3.5f))};
}

// An infinite input gives NaN. The contract of GELU (gelu.h) permits that, because it only requires that the result is not finite.
template <class Tail>
struct ErfGeluWith {
  static __device__ __forceinline__ float value(float x) {
    const float z = fabsf(x);
    const NormalTail normal = normal_tail<Tail>(z);
    return fmaf(-z, normal.ratio * normal.exp_half_square, fmaxf(x, 0.0f));
  }
  static __device__ __forceinline__ float slope(float x) {
    const float z = fabsf(x);
    const NormalTail normal = normal_tail<Tail>(z);
    // phi(z) = exp(-z^2 / 2) / sqrt(2 pi); the constant is 1 / sqrt(2 pi).
    const float h = fmaf(z, 0.398942280f, -normal.ratio) * normal.exp_half_square;
    return x < 0.0f ? -h : h + 1.0f;
  }
};
// Computes GELU in its exact form, with the error function, for activations of type T.
template <typename T>
struct ErfGelu : ErfGeluWith<std::conditional_t<std::is_same_v<T, float>, TailForF32, TailFor16Bits>> {};

// Computes the erf form for an x that was rounded to T before a bias was added to it. Phi(-z) = 2^p(z), with p fitted for z up to 8. The
// relative error of Phi is 1.56e-4 (1 + z^2) for bf16 and 1.9e-6 (1 + z^2) for f16; for comparison, the rounding of x causes a relative
// error of (z + 1/z) z times 2^-9 for bf16 and 2^-12 for f16. Beyond 8, p continues to decrease and z Phi(-z) is below 1e-14. This code
// takes 10 (bf16) and 12 (f16) instructions, and ErfGelu<T> takes 17. While an H200 computes matrix products its clock is limited by power,
// so fewer instructions save time even if their latency is hidden.
template <typename T>
struct ErfGeluOfRounded {
  static __device__ __forceinline__ float value(float x) {
    const float z = fabsf(x);
    return fmaf(-z, fast_exp2(log2_of_tail(z)), fmaxf(x, 0.0f));
  }

 private:
  static __device__ __forceinline__ float log2_of_tail(float z) {
    float p;
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      p = -1.8567189e-04f;
      p = fmaf(p, z, 4.4035842e-03f);
      p = fmaf(p, z, -4.3410454e-02f);
      p = fmaf(p, z, -4.6997523e-01f);
      p = fmaf(p, z, -1.1470869e+00f);
      return fmaf(p, z, -1.0002246e+00f);
    } else {
      p = -1.5258449e-06f;
      p = fmaf(p, z, 5.5234679e-05f);
      p = fmaf(p, z, -8.8046037e-04f);
      p = fmaf(p, z, 8.3194068e-03f);
      p = fmaf(p, z, -5.3611398e-02f);
      p = fmaf(p, z, -4.5875686e-01f);
      p = fmaf(p, z, -1.1511620e+00f);
      return fmaf(p, z, -1.0000005e+00f);
    }
  }
};

// The logistic function that the tanh form of GELU and SiLU have in common: gate = 1 / (1 + e) with e = exp(-v) = 2^y. y is clamped so that
// 2^y and 1 / 2^y are normal numbers. |x| is clamped where larger values no longer change the result, and before a term overflows.
struct Gate {
  float x, gate, e;
};
__device__ __forceinline__ float cut_to(float x, float limit) {
  return copysignf(fminf(fabsf(x), limit), x);
}
__device__ __forceinline__ Gate gate_of(float cut, float y) {
  const float e = fast_exp2(fmaxf(fminf(y, 125.0f), -125.0f));
  const float gate = y < 125.0f ? fast_reciprocal(1.0f + e) : 0.0f;
  return {cut, gate, y > -125.0f ? e : 0.0f};
}
// Returns gate + x * gate * (1 - gate) * v'(x), and NaN for NaN.
__device__ __forceinline__ float gated_slope(float x, const Gate& g, float d_v) {
  const float slope = fmaf(g.x, g.e * g.gate * g.gate * d_v, g.gate);
  return x == x ? slope : x;
}

template <typename T>
struct TanhGelu {
  static __device__ __forceinline__ Gate gate(float x) {
    const float cut = cut_to(x, 15.0f);
    // The two constants are 2 * sqrt(2/pi) * log2(e), and 0.044715 times this number.
    return gate_of(cut, cut * fmaf(cut * cut, -0.102943240f, -2.30220819f));
  }
  static __device__ __forceinline__ float value(float x) { return x * gate(x).gate; }
  static __device__ __forceinline__ float slope(float x) {
    const Gate g = gate(x);
    return gated_slope(x, g, fmaf(g.x * g.x, 0.214064449f, 1.59576912f));
  }
};

template <typename T>
struct Silu {
  static __device__ __forceinline__ Gate gate(float x) {
    const float cut = cut_to(x, 100.0f);
    return gate_of(cut, cut * -1.44269504f);  // the constant is -log2(e)
  }
  static __device__ __forceinline__ float value(float x) { return x * gate(x).gate; }
  static __device__ __forceinline__ float slope(float x) { return gated_slope(x, gate(x), 1.0f); }
};

// Comparisons with NaN are false, so both functions pass NaN through.
template <typename T>
struct Relu {
  static __device__ __forceinline__ float value(float x) { return x <= 0.0f ? 0.0f : x; }
  static __device__ __forceinline__ float slope(float x) { return x > 0.0f ? 1.0f : (x <= 0.0f ? 0.0f : x); }
};

template <typename T>
struct Tanh {
  static __device__ __forceinline__ float value(float x) { return tanhf(x); }
  static __device__ __forceinline__ float slope(float x) {
    const float y = tanhf(x);
    return fmaf(-y, y, 1.0f);
  }
};

// Calls body(T{}, Form{}), where T is the C++ type of the elements and Form is the class of this file that computes the activation for T.
template <class Body>
void with_type_and_form(DType dtype, Activation activation, const Body& body) {
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    switch (activation) {
      case Activation::kGelu:
        return body(type, ErfGelu<T>{});
      case Activation::kGeluTanh:
        return body(type, TanhGelu<T>{});
      case Activation::kRelu:
        return body(type, Relu<T>{});
      case Activation::kSilu:
        return body(type, Silu<T>{});
      case Activation::kTanh:
        return body(type, Tanh<T>{});
    }
  });
}

}  // namespace plimsoll::cuda
