// Sums that several threads of the norms' backward pass compute together: the sums of a row over the warps that process it, and the sums of
// a thread block over its rows. The order of additions is always the same. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/layer_norm/cuda/norm_bwd_rows.cuh"

namespace plimsoll::cuda::norm_bwd {

// Sums each of kValues values over the lanes of a warp. In each step, two lanes hold partial sums of the same values. Each passes half of
// them to the other lane, and adds what it receives to the half that it keeps, so that the number of values per lane halves. Afterwards
// values[0] of lane i * (32 / kValues) is the sum of values[i]. The order of additions is that of warp_sum.
template <int kValues>
__device__ __forceinline__ void sum_over_warp(float (&values)[kValues], int lane) {
  int distance = 16;
#pragma unroll
  for (int half = kValues / 2; half > 0; half /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < kValues / 2; ++i) {
      if (i >= half) continue;
      const float sent = upper ? values[i] : values[i + half];
      const float kept = upper ? values[i + half] : values[i];
      values[i] = kept + __shfl_xor_sync(kWholeWarp, sent, distance);
    }
    distance /= 2;
  }
#pragma unroll
  for (int rest = 16 / kValues; rest > 0; rest /= 2) {
    values[0] += __shfl_xor_sync(kWholeWarp, values[0], rest);
  }
}

// Waits for the other warps of the group. Different groups do not wait for each other.
__device__ __forceinline__ void wait_for_group(const Place& at) {
  asm volatile("bar.sync %0, %1;" ::"r"(at.group + 1), "r"(at.threads) : "memory");
}

// Adds the sums of a group's warps and returns the totals in all threads of the group. `slots` is an array [groups][warps][2 * kRows] in
// shared memory. Successive calls must alternate between two arrays, because threads may still read the previous one.
template <int kRows>
__device__ __forceinline__ void reduce_over_group(const Place& at, float* slots, float (&sums)[2 * kRows]) {
  constexpr int kValues = 2 * kRows;
  const int lane = at.thread % 32;
  const int warps = at.threads / 32;
  sum_over_warp<kValues>(sums, lane);
  float* mine = slots + at.group * warps * kValues;
  if (lane % (32 / kValues) == 0) mine[at.thread / 32 * kValues + lane / (32 / kValues)] = sums[0];
  if (warps == 1) {
    __syncwarp();
  } else {
    wait_for_group(at);
  }
#pragma unroll
  for (int k = 0; k < kValues; ++k) sums[k] = mine[k];
#pragma unroll 1
  for (int warp = 1; warp < warps; ++warp) {
#pragma unroll
    for (int k = 0; k < kValues; ++k) sums[k] += mine[warp * kValues + k];
  }
}

// Adds the sums of all groups of a thread block in order, and stores the result as the block's partial sum. `shared` must have space for
// one float per element of each group except the first.
template <int N>
__device__ __forceinline__ void store_partial(const Place& at, int64_t C, float (&sum)[kElements],
                                              float* shared, float* partial) {
  const int stride = at.threads * kElements;
  __syncthreads();
  if (at.group > 0) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      shared[(at.group - 1) * stride + i * at.threads + at.thread] = sum[i];
    }
  }
  __syncthreads();
  if (at.group > 0) return;
  for (int group = 1; group < at.groups; ++group) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      sum[i] += shared[(group - 1) * stride + i * at.threads + at.thread];
    }
  }
#pragma unroll
  for (int j = 0; j < kElements / N; ++j) {
    const int c = (at.thread + j * at.threads) * N;
    if (c >= C) continue;
    float pack_sums[N];
#pragma unroll
    for (int i = 0; i < N; ++i) pack_sums[i] = sum[j * N + i];
    store_floats<float, N>(partial + c, pack_sums);
  }
}

}  // namespace plimsoll::cuda::norm_bwd
