// The exponentials of a row and their sum in one pass over memory. Each thread keeps a sum relative to a
// reference near the largest number that it has seen, and rescales the sum when the reference grows (Milakov
// and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, algorithm 3). Only for .cu
// files. Thread-safe: no state.
//
// Numerics: exponentials, and their sum over a batch (the packs that a thread loads at a time), are in fp32 and everything else is in
// double, in an order that depends only on the shape of the row. The relative error of the sum has four parts, with u = 2^-24. An
// exponential has an error of at most 7 u times the largest one (exp_to_1). The sum of a batch is rounded once for each element of a pack
// and once for each pack, at most 12 u. A change of the reference rescales the sum so far with an error of 3 u and makes it less than 1 / e
// of the new sum, so all changes of a thread cost less than 2 u. The change to the common reference of a block's threads costs 3 u. The
// total is within softmax_sum_error, also for rows of up to 256 classes: each thread then has a single batch, whose maximum is its
// reference.
#pragma once

#include <cfloat>

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll::cuda {

// The number of packs (16 bytes of adjacent elements) that a thread loads before it uses the first one.
inline constexpr int kRowBatch = 4;

// Returns exp(x) for x <= 1 in two instructions. The relative error is at most 2^-22 (ex2.approx) plus |x| 2^-23 for the roundings of x, of
// the product and of log2(e). The term |x| 2^-23 causes an absolute error of at most 2^-24 for x <= 0, because |x| exp(x) <= 0.37, and of
// 2^-23 e at x = 1. For x below -87.3 the function returns 0.
__device__ __forceinline__ float exp_to_1(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}

// Returns the pack with all but its first `count` elements replaced by -inf. The last pack of a row contains padding if the number of
// classes is not a multiple of the elements of a pack, because the distance between two rows is always a whole number of packs.
template <typename T, int N>
__device__ __forceinline__ Raw<T, N> without_padding(const Raw<T, N>& raw, uint32_t count) {
  float values[N];
  unpack<T, N>(raw, values);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (static_cast<uint32_t>(i) >= count) values[i] = -INFINITY;
  }
  return pack<T, N>(values);
}

// Loads the packs of one thread from class `first` on. The distance between its packs is the width of the block. Classes past the end of
// the row are -inf.
template <typename T, int N>
__device__ __forceinline__ void load_batch(const T* x, uint32_t num_classes, uint32_t first,
                                           Raw<T, N> (&raw)[kRowBatch]) {
  float none[N];
#pragma unroll
  for (int i = 0; i < N; ++i) none[i] = -INFINITY;
#pragma unroll
  for (int u = 0; u < kRowBatch; ++u) {
    const uint32_t k = first + static_cast<uint32_t>(u) * blockDim.x * N;
    raw[u] = pack<T, N>(none);
    if (k < num_classes) raw[u] = load_raw<T, N>(x + k);
    if (N > 1 && k < num_classes && k + N > num_classes)
      raw[u] = without_padding<T, N>(raw[u], num_classes - k);
  }
}

// Returns the largest number of a batch of packs, or -FLT_MAX if none is larger; NaNs are ignored. Two bf16 numbers are compared at a time
// if the hardware supports that, because these kernels are limited by instructions as much as by memory.
template <typename T, int N>
__device__ __forceinline__ float greatest_of(const Raw<T, N> (&raw)[kRowBatch]) {
#if __CUDA_ARCH__ >= 800
  constexpr bool kPairs = std::is_same_v<T, __nv_bfloat16> && N > 1;
#else
  constexpr bool kPairs = false;
#endif
  float greatest = -FLT_MAX;
  if constexpr (kPairs) {
    uint32_t pair = raw[0].word[0];
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) asm("max.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(raw[u].word[i]));
    }
    const float2 both = widen<T>(pair);
    greatest = fmaxf(greatest, fmaxf(both.x, both.y));
  } else {
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      float values[N];
      unpack<T, N>(raw[u], values);
#pragma unroll
      for (int i = 0; i < N; ++i) greatest = fmaxf(greatest, values[i]);
    }
  }
  return greatest;
}

// The sum of exp(x_k - reference) over some of a row's classes. Every x_k added so far is at most reference + 1. Only if a batch contains a
// larger number does a thread raise the reference and rescale its sum; each rescaling makes the sum so far, with its errors, less than 1 /
// e of the new sum. A reference of -inf is stored as -FLT_MAX, so that x_k - reference is NaN only if x_k is NaN or +inf; the sum is then
// NaN. The sum of a row that contains only -inf is 0.
struct RowExponentials {
  float reference = -FLT_MAX;
  double sum = 0.0;

  template <typename T, int N>
  __device__ __forceinline__ void add(const Raw<T, N> (&raw)[kRowBatch]) {
    const float greatest = greatest_of<T, N>(raw);
    rescale_to(greatest - reference > 1.0f ? greatest : reference);
    float sums[kRowBatch] = {};
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) {
      float values[N];
      unpack<T, N>(raw[u], values);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[u] += exp_to_1(values[i] - reference);
    }
    float batch = 0.0f;
#pragma unroll
    for (int u = 0; u < kRowBatch; ++u) batch += sums[u];
    sum += static_cast<double>(batch);
  }
  __device__ __forceinline__ void rescale_to(float greatest) {
    sum *= static_cast<double>(expf(reference - greatest));
    reference = greatest;
  }
  __device__ __forceinline__ void add_over_warp() {
    rescale_to(warp_max(reference));
    sum = warp_sum(sum);
  }
};

// Returns the sum over all threads of a row, relative to their common maximum. Requires: all threads of the
// row call it; `slots` is shared memory with one element per warp that no earlier call has used since the
// last barrier.
__device__ __forceinline__ RowExponentials over_block(RowExponentials own, RowExponentials* slots) {
  const uint32_t thread = threadIdx.x, warps = blockDim.x / 32;
  own.add_over_warp();
  if (warps == 1) return own;
  if (thread % 32 == 0) slots[thread / 32] = own;
  __syncthreads();
  RowExponentials all;
  if (thread % 32 < warps) all = slots[thread % 32];
  all.add_over_warp();
  return all;
}

// Returns the sum of exponentials of a whole row, and has read the entire row when it returns. Requires: all threads of the row call it;
// `slots` is shared memory with one element per warp that no earlier call has used since the last barrier.
template <typename T, int N>
__device__ __forceinline__ RowExponentials row_exponentials(const T* x, int64_t num_classes,
                                                            RowExponentials* slots) {
  RowExponentials own;
  for (uint32_t first = threadIdx.x * N; first < num_classes; first += kRowBatch * blockDim.x * N) {
    Raw<T, N> raw[kRowBatch];
    load_batch<T, N>(x, static_cast<uint32_t>(num_classes), first, raw);
    own.add<T, N>(raw);
  }
  return over_block(own, slots);
}

}  // namespace plimsoll::cuda
