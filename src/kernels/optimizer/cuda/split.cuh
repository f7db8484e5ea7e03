// Splits fp32 numbers, N at a time, into a bf16 number and the remaining 16 bits (base/split_f32.h), joins the two again, and makes bf16
// copies that are rounded in the same way. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::cuda {

// Returns the upper half of a split number as the bits of a bf16, and sets `low` to the lower 16 bits.
__device__ __forceinline__ uint32_t split_bits(float value, uint32_t& low) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    low = 0;
    return bits >> 16 | 0x0040u;
  }
  low = bits & 0xffffu;
  return (bits + 0x8000u) >> 16;
}
__device__ __forceinline__ float join_bits(uint32_t high, uint32_t low) {
  return __uint_as_float(((high - (low >> 15)) & 0xffffu) << 16 | low);
}

// Read and write element i of a group of N elements of 16 bits.
template <int N>
__device__ __forceinline__ uint32_t half_of(const Raw<__nv_bfloat16, N>& raw, int i) {
  return i % 2 == 0 ? raw.word[i / 2] & 0xffffu : raw.word[i / 2] >> 16;
}
template <int N>
__device__ __forceinline__ void set_half(Raw<__nv_bfloat16, N>& raw, int i, uint32_t bits) {
  raw.word[i / 2] = i % 2 == 0 ? bits : raw.word[i / 2] | bits << 16;
}

template <int N>
__device__ __forceinline__ void load_split(const __nv_bfloat16* high, const __nv_bfloat16* low,
                                           float (&x)[N]) {
  const Raw<__nv_bfloat16, N> upper = load_raw<__nv_bfloat16, N>(high);
  const Raw<__nv_bfloat16, N> lower = load_raw<__nv_bfloat16, N>(low);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = join_bits(half_of<N>(upper, i), half_of<N>(lower, i));
}

template <int N>
__device__ __forceinline__ void store_split(__nv_bfloat16* high, __nv_bfloat16* low, const float (&x)[N]) {
  Raw<__nv_bfloat16, N> upper, lower;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    uint32_t rest;
    set_half<N>(upper, i, split_bits(x[i], rest));
    set_half<N>(lower, i, rest);
  }
  store_raw<__nv_bfloat16, N>(high, upper);
  store_raw<__nv_bfloat16, N>(low, lower);
}

// Rounds N fp32 numbers stochastically to bf16 (round_stochastically of base/split_f32.h). Each number needs 16 random bits: a word of
// `noise` contains those of two numbers, the first in its lower half.
template <int N>
__device__ __forceinline__ Raw<__nv_bfloat16, N> rounded_stochastically(
    const float (&x)[N], const uint32_t (&noise)[(N + 1) / 2]) {
  uint32_t sums[N];
  bool has_nan = false;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sums[i] = __float_as_uint(x[i]) + (i % 2 == 0 ? noise[i / 2] & 0xffffu : noise[i / 2] >> 16);
    if (i % 2 == 0) has_nan = has_nan || isunordered(x[i], x[N == 1 ? i : i + 1]);
  }
  if (has_nan) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (isnan(x[i])) sums[i] = __float_as_uint(x[i]) | 0x400000u;
    }
  }
  Raw<__nv_bfloat16, N> rounded;
  if constexpr (N == 1) {
    rounded.word[0] = sums[0] >> 16;
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) rounded.word[i / 2] = __byte_perm(sums[i], sums[i + 1], 0x7632);
  }
  return rounded;
}

// Stores only the upper halves of the split numbers, as a bf16 copy.
template <int N>
__device__ __forceinline__ void store_copy(__nv_bfloat16* copy, const float (&x)[N]) {
  Raw<__nv_bfloat16, N> upper;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    uint32_t rest;
    set_half<N>(upper, i, split_bits(x[i], rest));
  }
  store_raw<__nv_bfloat16, N>(copy, upper);
}

}  // namespace plimsoll::cuda
