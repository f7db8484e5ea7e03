// A launch whose blocks may come beside the last of the one before (programmatic dependent launch, compute
// capability 9.0; elsewhere it begins when the other has ended). Every thread of it waits for that one before
// it reads or writes what others do too, and every block waits, so that what follows this launch follows the
// other as well. On an H200 a second launch costs 3 us, so begun 1.8. Only for .cu files. Thread-safe: no
// state.
#pragma once

#include <utility>

#include "device/cuda/error.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/cuda/attributes.cuh"

namespace plimsoll::cuda {

// The next launch, if it is an early one, may begin when all blocks of this one have called it or are done.
// Requires of one that is early itself: called after it has waited.
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
// In an early launch: until the one before has ended, and what it wrote can be read.
__device__ __forceinline__ void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

struct LaunchShape {
  dim3 grid, block;
  int64_t shared_bytes = 0;
};
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), const LaunchShape& shape, CudaStream stream,
                  Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9 ? 1 : 0;
  PLIMSOLL_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace plimsoll::cuda
