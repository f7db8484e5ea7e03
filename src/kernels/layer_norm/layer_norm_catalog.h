// What the catalog's rows of this family are made of. Thread-safe: constants and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/element_wise/element_wise_catalog.h"

namespace plimsoll {

// A row is held on the stack in fp32 between the passes over it; longer ones are declined and go to the
// reference.
inline constexpr int64_t kMaxNormColumns = 16384;

// On a GPU the row lies in the registers of a block of at most 512 threads, eight elements in each.
inline constexpr int64_t kMaxNormCudaColumns = 4096;

// How the backward kernel cuts the rows: into num_blocks blocks, two for each multiprocessor of today's large
// cards, that take them in turns, about rows_per_block each.
constexpr RowBlocks norm_bwd_cuda_blocks(int64_t T) {
  if (T <= 0) return {0, 1};
  const int64_t rows = std::max((T + 255) / 256, int64_t{4});
  return {(T + rows - 1) / rows, rows};
}
// Scratch: fp32 [3, num_blocks, stride].
constexpr int64_t norm_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return 3 * norm_bwd_cuda_blocks(T).num_blocks * cuda_partial_stride(C) * 4;
}
// The number of additions that a term meets on its way into d_gain, d_beta or d_bias: a block's rows in
// order, shared by at most 8 groups of warps. A group takes up to two rows in a turn, so that where a block
// is one group it may add three rows more than rows_per_block; then no groups are to be added.
constexpr double norm_column_sum_cuda_depth(int64_t T) {
  const RowBlocks blocks = norm_bwd_cuda_blocks(T);
  return static_cast<double>(std::min(T, blocks.rows_per_block) + 8 + cuda_partial_depth(blocks.num_blocks));
}

}  // namespace plimsoll
