// Sums over the lanes of a warp and over the warps of a block in a fixed order: lanes are added in
// pairs whose distance halves from step to step, and the sums of warps are added one after another.
// Every thread gets the result. Thread-safe: no state.
#pragma once

#include <cstdint>

namespace plimsoll::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

// Returns the maximum over the warp of numbers that are neither negative nor NaN. Comparing the bits of such numbers
// as integers gives the same order.
__device__ __forceinline__ float warp_max_of_magnitudes(float value) {
#if __CUDA_ARCH__ >= 800
  return __uint_as_float(__reduce_max_sync(kWholeWarp, __float_as_uint(value)));
#else
  return warp_max(value);
#endif
}

// Returns the sum of `value` over all threads of a block; `thread` is the number of this thread. Requires: all threads call it. `slots` is
// an array in shared memory with one element per warp, which no other call may have used since the last barrier.
template <typename T>
__device__ __forceinline__ T block_sum(T value, int thread, int num_warps, T* slots) {
  value = warp_sum(value);
  if (num_warps == 1) return value;
  if (thread % 32 == 0) slots[thread / 32] = value;
  __syncthreads();
  T sum = slots[0];
  for (int warp = 1; warp < num_warps; ++warp) sum += slots[warp];
  return sum;
}

}  // namespace plimsoll::cuda
