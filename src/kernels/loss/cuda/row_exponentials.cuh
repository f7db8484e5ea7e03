// The exponentials of a row and their sum in one pass over memory: each thread keeps a sum relative to a
// reference near the greatest number that it has seen, and scales the sum when that grows (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, algorithm 3). Only for .cu
// files. Thread-safe: no state.
//
// Numerics: exponentials and their sum over a batch of packs in fp32, all else in double, in an order that
// the shape of the row alone decides. Error of the sum, relative, u = 2^-24: an exponential is off by 7 u of
// the largest (exp_to_1), a batch's sum by one rounding for each element of a pack and for each pack, 12 u at
// most. A change of the reference costs 3 u of what was summed before, which then is less than 1 / e of the
// sum: all changes of a thread less than 2 u, the one over a block's threads 3 u. That is within
// softmax_sum_error: rows of up to 256 classes are one batch to a thread, whose reference is the greatest of
// it.
#pragma once

#include <cfloat>

#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll::cuda {

// Packs that a thread loads before it looks at the first.
inline constexpr int kRowBatch = 4;

// exp(x) for x <= 1 in two instructions: off by at most 2^-22 of itself (ex2.approx), and by |x| 2^-23 of
// itself for the roundings of x, of the product and of log2(e), which is at most 2^-24 for x <= 0, as |x|
// exp(x) <= 0.37, and 2^-23 of e at 1. Below -87.3 it is 0.
__device__ __forceinline__ float exp_to_1(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}

// Packs from class `first` on, a block's width apart; -inf beyond the row.
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
  }
}

// The greatest number of a batch, -FLT_MAX where none is greater; NaN counts for nothing. Two bf16 numbers
// are compared at a time where the hardware can: these kernels are as short of instructions as of bytes.
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

// The sum of exp(x_k - reference) over some of a row's classes. No x_k is above reference + 1: a thread
// scales its sum only when a batch is beyond that, and each time what it has summed so far, errors included,
// shrinks to less than 1 / e. A reference of -inf is kept as -FLT_MAX, so that no difference is NaN but for a
// class that is NaN or +inf: then the sum is NaN. Of -inf alone it is 0.
struct RowExponentials {
  float reference = -FLT_MAX;
  double sum = 0.0;

  template <typename T, int N>
  __device__ __forceinline__ void add(const Raw<T, N> (&raw)[kRowBatch]) {
    const float greatest = greatest_of<T, N>(raw);
    refer_to(greatest - reference > 1.0f ? greatest : reference);
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
  __device__ __forceinline__ void refer_to(float greatest) {
    sum *= static_cast<double>(expf(reference - greatest));
    reference = greatest;
  }
  __device__ __forceinline__ void add_over_warp() {
    refer_to(warp_max(reference));
    sum = warp_sum(sum);
  }
};

// The sum of all threads' of a row, their maximum its maximum. Requires: all threads of the row call it;
// `slots` is shared memory, one for each warp, that no earlier call used since the last barrier.
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

// Of a whole row. Requires as over_block. All of the row is read when it returns.
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
