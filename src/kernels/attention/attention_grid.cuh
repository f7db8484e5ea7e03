// How kernels of attention with more than 48 KiB of tiles are launched, and how many bytes the fp32 tiles
// take. Host code of CUDA sources.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/error.h"
#include "kernels/attention/attention_launch.h"

namespace plimsoll::attention {

// Shared memory that a block of the current device may have.
inline int64_t shared_bytes_of_block() {
  int device = 0, bytes = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

// q, k, v and scores.
constexpr int64_t fwd_tile_bytes(int dim, int rows, int keys) {
  return int64_t{4} * (rows * dim + 2 * keys * dim + rows * keys);
}
// Two tiles that stay, two that pass by, and scores.
constexpr int64_t bwd_tile_bytes(int dim, int rows, int passing) {
  return int64_t{4} * (2 * rows * dim + 2 * passing * dim + rows * passing);
}

// One block for each tile of `rows` rows of the longest sequence that the bucket allows, for every head of
// every sequence and once more for the tail.
inline void launch_on_grid(void (*kernel)(AttentionKernelArgs), int rows, int threads, int64_t shared_bytes,
                           const AttentionKernelArgs& args, CudaStream stream) {
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)));
  // All of what a multiprocessor has goes to tiles: several blocks share one.
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared));
  const dim3 grid(static_cast<unsigned>(std::max(1, (args.longest + rows - 1) / rows)),
                  static_cast<unsigned>(args.heads), static_cast<unsigned>(args.sequences + 1));
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(args);
}

}  // namespace plimsoll::attention
