// Launches attention kernels that need more than 48 KiB of shared memory for tiles, and computes the bytes of
// the fp32 tiles. Host code of CUDA sources.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_launch.h"

namespace plimsoll::attention {

// Returns the shared memory available to a block on the current device.
inline int64_t shared_bytes_of_block() {
  int device = 0, bytes = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

// Returns the bytes of the tiles of q, k, v and scores.
constexpr int64_t fwd_tile_bytes(int dim, int rows, int keys) {
  return int64_t{4} * (rows * dim + 2 * keys * dim + rows * keys);
}
// Returns the bytes of two tiles that a block keeps, two tiles that its loop replaces, and scores.
constexpr int64_t bwd_tile_bytes(int dim, int rows, int passing) {
  return int64_t{4} * (2 * rows * dim + 2 * passing * dim + rows * passing);
}

// Launches one thread block per tile of `rows` rows of the bucket's longest sequence, for each of `heads` heads of every sequence, plus one
// set of blocks for the tail rows. find_work() decodes the block indices.
inline void launch_on_grid(void (*kernel)(AttentionKernelArgs), int rows, int heads, int threads,
                           int64_t shared_bytes, const AttentionKernelArgs& args, CudaStream stream) {
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)));
  // Reserves the largest share of a multiprocessor's memory for shared memory, so that as many blocks as possible run on one
  // multiprocessor.
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared));
  const auto tiles = static_cast<unsigned>(std::max(1, (args.longest + rows - 1) / rows)),
             num_heads = static_cast<unsigned>(heads), sequences = static_cast<unsigned>(args.sequences + 1);
  const dim3 grid = args.causal ? dim3(num_heads, tiles, sequences) : dim3(tiles, num_heads, sequences);
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(args);
}

// Calls launch.operator()<kType, kDim, kM>() for the head size. Heads wider than 64 use blocks of 64 rows.
template <DType kType, int kM, typename Launch>
void launch_for_head(int head_dim, const Launch& launch) {
  if (head_dim <= 32) {
    launch.template operator()<kType, 32, kM>();
  } else if (head_dim <= 64) {
    launch.template operator()<kType, 64, kM>();
  } else {
    launch.template operator()<kType, 128, 1>();
  }
}

// Calls launch for the data type as well as the head size, with blocks of `rows` (64 or 128) rows for 16-bit tensors
// and of 64 kMOfF32 rows for fp32 tensors.
template <int kMOfF32, typename Launch>
void launch_mma(const AttentionKernelArgs& args, int rows, const Launch& launch) {
  const auto of_rows = [&]<DType kType>() {
    rows == 64 ? launch_for_head<kType, 1>(args.head_dim, launch)
               : launch_for_head<kType, 2>(args.head_dim, launch);
  };
  if (args.dtype == DType::kF32) return launch_for_head<DType::kF32, kMOfF32>(args.head_dim, launch);
  if (args.dtype == DType::kBF16) return of_rows.template operator()<DType::kBF16>();
  of_rows.template operator()<DType::kF16>();
}

// Calls launch.operator()<kType, kDim>() for 16-bit tensors, with tiles of kDim columns, 64 or 128.
template <typename Launch>
void launch_for_warpgroups(const AttentionKernelArgs& args, const Launch& launch) {
  const auto of_type = [&]<DType kType>() {
    args.head_dim <= 64 ? launch.template operator()<kType, 64>() : launch.template operator()<kType, 128>();
  };
  args.dtype == DType::kBF16 ? of_type.template operator()<DType::kBF16>()
                             : of_type.template operator()<DType::kF16>();
}

}  // namespace plimsoll::attention
