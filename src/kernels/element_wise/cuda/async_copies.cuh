// Asynchronous copies from global to shared memory. A thread starts copies, closes them into groups and waits
// for groups later. Before compute capability 8.0 a copy is complete when the call returns. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include <cstdint>

namespace plimsoll::cuda {

// Copies 16 bytes, or writes zeros if `is_valid` is false.
__device__ __forceinline__ void copy_async(uint4* to, const void* from, bool is_valid) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(is_valid ? 16 : 0)
               : "memory");
#else
  *to = is_valid ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#endif
}
__device__ __forceinline__ void close_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until all but the last kPending closed groups of this thread's copies have completed.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace plimsoll::cuda
