// Host code that launches the attention kernels (they need more than 48 KiB of shared memory per block) and functions that return the
// bytes of their fp32 tiles. For CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_launch.h"

namespace plimsoll::attention {

// Returns the largest number of bytes of shared memory that a thread block can use on the current device.
inline int64_t shared_bytes_of_block() {
  int device = 0, bytes = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

// Returns the bytes of shared memory for the tiles of q, k, v and scores in the forward pass.
constexpr int64_t fwd_tile_bytes(int dim, int rows, int keys) {
  return int64_t{4} * (rows * dim + 2 * keys * dim + rows * keys);
}
// Returns the bytes of shared memory in the backward pass: two tiles that a thread block keeps, two tiles that its loop replaces, and a
// tile of scores.
constexpr int64_t bwd_tile_bytes(int dim, int rows, int passing) {
  return int64_t{4} * (2 * rows * dim + 2 * passing * dim + rows * passing);
}

// Launches `kernel` on a grid of tiles, heads and sequences: the tiles of `rows` rows that cover the longest sequence, `heads` heads, and
// one sequence too many, whose blocks write zeros to the rows after the last sequence. find_work() computes the tile of a block.
inline void launch_on_grid(void (*kernel)(AttentionKernelArgs), int rows, int heads, int threads,
                           int64_t shared_bytes, const AttentionKernelArgs& args, CudaStream stream) {
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)));
  // Requests the largest share of a multiprocessor's on-chip memory for shared memory (the rest is L1 cache), so that as many blocks as
  // possible run on one multiprocessor.
  PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared));
  const auto tiles = static_cast<unsigned>(std::max(1, (args.longest + rows - 1) / rows)),
             num_heads = static_cast<unsigned>(heads), sequences = static_cast<unsigned>(args.sequences + 1);
  const dim3 grid = args.causal ? dim3(num_heads, tiles, sequences) : dim3(tiles, num_heads, sequences);
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(args);
}

// Calls the template `launch` with the smallest supported tile width (32, 64 or 128 columns) in which a head fits. For heads wider than 64
// a block has 64 rows.
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

// Calls the template `launch` with the data type of the arguments and the smallest supported tile width in which a head fits. A block has
// `rows` (64 or 128) rows of 16-bit tensors, or 64 * kMOfF32 rows of fp32 tensors; for heads wider than 64 it always has 64.
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

// Calls the template `launch` for the type of 16-bit tensors and for tiles of 64 or 128 columns, the smaller of the two that holds a head.
template <typename Launch>
void launch_for_warpgroups(const AttentionKernelArgs& args, const Launch& launch) {
  const auto of_type = [&]<DType kType>() {
    args.head_dim <= 64 ? launch.template operator()<kType, 64>() : launch.template operator()<kType, 128>();
  };
  args.dtype == DType::kBF16 ? of_type.template operator()<DType::kBF16>()
                             : of_type.template operator()<DType::kF16>();
}

}  // namespace plimsoll::attention
