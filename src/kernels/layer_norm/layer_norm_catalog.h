// The limits and the scratch memory of the norm kernels. The catalog selects a norm kernel by a RowsProblem (the numbers of rows and
// columns). Thread-safe: constants and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/element_wise/element_wise_catalog.h"

namespace plimsoll {

// The largest number of columns that the CPU kernels support. They store a row in fp32 on the stack between their passes over it. The
// reference supports longer rows.
inline constexpr int64_t kMaxNormColumns = 16384;

// The largest number of columns that the CUDA kernels support. They store a row in the registers of a thread block: the backward kernel
// eight elements in each of up to 512 threads, the forward kernel 32 elements in each of up to 128 threads.
inline constexpr int64_t kMaxNormCudaColumns = 4096;

// Returns how the backward kernel divides the rows: num_blocks thread blocks, two per multiprocessor of a large GPU, process about
// rows_per_block rows each, a few rows at a time.
constexpr RowBlocks norm_bwd_cuda_blocks(int64_t T) {
  if (T <= 0) return {0, 1};
  const int64_t rows = std::max((T + 255) / 256, int64_t{4});
  return {(T + rows - 1) / rows, rows};
}
// Returns the bytes of the scratch memory, which is an fp32 array [3, num_blocks, row length rounded up]: the partial sums of d_gain,
// d_beta and d_bias per thread block.
constexpr int64_t norm_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return 3 * norm_bwd_cuda_blocks(T).num_blocks * cuda_partial_stride(C) * 4;
}
// Returns the largest number of additions that a term of d_gain, d_beta or d_bias takes part in, from which its error bound follows. In a
// thread block, at most 8 groups of warps each sum some of the rows, and the sums of the groups are then added in order. If there is only
// one group, it may process up to three rows more than rows_per_block, but then there are no sums of groups to add.
constexpr double norm_column_sum_cuda_depth(int64_t T) {
  const RowBlocks blocks = norm_bwd_cuda_blocks(T);
  return static_cast<double>(std::min(T, blocks.rows_per_block) + 8 + cuda_partial_depth(blocks.num_blocks));
}

// In the CUDA kernels of rms_norm, a group of 32 to 256 threads processes a vector. Each thread keeps at most kRmsNormElements elements of
// the vector, and of the sums for d_gain, in registers. The backward kernel launches at most as many groups as a large GPU runs at once.
// Each group processes at least four vectors and stores its partial sums of d_gain as one row of the scratch memory.
inline constexpr int64_t kRmsNormElements = 32;
inline constexpr int64_t kMaxRmsNormCudaColumns = 256 * kRmsNormElements;
constexpr int64_t rms_norm_cuda_threads(int64_t C) {
  int64_t threads = 32;
  while (threads < 256 && threads * 8 < C) threads *= 2;
  return threads;
}
constexpr RowBlocks rms_norm_cuda_groups(int64_t vectors, int64_t C) {
  if (vectors <= 0) return {0, 1};
  const int64_t most = 264 * 256 / rms_norm_cuda_threads(C);
  const int64_t rows = std::max((vectors + most - 1) / most, int64_t{4});
  return {(vectors + rows - 1) / rows, rows};
}
// Returns the bytes of the scratch memory, which is an fp32 array [groups, row length rounded up]: the partial sums of d_gain.
constexpr int64_t rms_norm_cuda_scratch_bytes(int64_t vectors, int64_t C) {
  return rms_norm_cuda_groups(vectors, C).num_blocks * cuda_partial_stride(C) * 4;
}

namespace catalog_rows {
Support rms_norm_fits_cuda(const RowsProblem& rows);
int64_t rms_norm_bwd_cuda_scratch(const RowsProblem& rows);
Support norm_row_fits(const RowsProblem& rows);
Support norm_row_fits_cuda(const RowsProblem& rows);
int64_t norm_bwd_cuda_scratch(const RowsProblem& rows);
int64_t three_column_sums_scratch(const RowsProblem& rows);
}  // namespace catalog_rows

}  // namespace plimsoll
