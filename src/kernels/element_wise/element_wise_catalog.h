// What the catalog's rows of this family are made of, and of every family that sums over rows: how the rows
// of a [T, C] tensor are cut for such a reduction, and the scratch that it takes. The cut depends on the
// shape alone, so that sums are the same bits with any number of threads; the plan learns the scratch from
// the same formulas. Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// Block i holds rows [i * rows_per_block, min(T, (i + 1) * rows_per_block)).
struct RowBlocks {
  int64_t num_blocks = 0;
  int64_t rows_per_block = 1;
};

// At most 64 blocks (parallelism enough, scratch small). A block has at least 16 rows, so that combining
// partial sums moves little beside what the blocks read, and at least 32768 elements, so that handing a block
// to a thread costs little.
constexpr RowBlocks row_blocks(int64_t T, int64_t C) {
  if (T <= 0) return {0, 1};
  const int64_t by_work = (32768 + std::max<int64_t>(C, 1) - 1) / std::max<int64_t>(C, 1);
  const int64_t rows = std::max({(T + 63) / 64, by_work, int64_t{16}});
  return {(T + rows - 1) / rows, rows};
}

// Floats from one row of partial sums to the next. Two lines of the cache lie between what two threads write,
// wherever the scratch begins: processors fetch lines in pairs, and a shared one is dear (scale_shift_bwd,
// 1024 x 768, 2 threads of a Xeon of 2023: 392 us with, 299 us without).
constexpr int64_t partial_row_stride(int64_t C) {
  return (C + 15) / 16 * 16 + 32;
}

// Scratch of a kernel that sums num_sums quantities over the rows of a [T, C] tensor: fp32 [num_sums,
// num_blocks, stride].
constexpr int64_t column_sums_scratch_bytes(int64_t T, int64_t C, int64_t num_sums) {
  return num_sums * row_blocks(T, C).num_blocks * partial_row_stride(C) * 4;
}

// The number of additions that a term meets on its way into a column sum; times the unit roundoff and the sum
// of magnitudes it bounds the error of the sum (Higham, "Accuracy and Stability of Numerical Algorithms",
// section 4.2).
constexpr double column_sum_depth(int64_t T, int64_t C) {
  const RowBlocks blocks = row_blocks(T, C);
  return static_cast<double>(std::min(T, blocks.rows_per_block) + blocks.num_blocks + 2);
}

// As many blocks for a GPU, where a block of threads takes a group of kCudaColumnsPerBlock columns, and the
// warps of all blocks take the rows in turn. Enough blocks to fill a card of today twice, few enough that the
// partial sums stay small beside what is read.
inline constexpr int64_t kCudaColumnsPerBlock = 256;
inline constexpr int64_t kCudaWarpsPerRowBlock = 8;
// Partial sums of a column are added by as many threads, each in order, and theirs in order.
inline constexpr int64_t kCudaPartialStrands = 32;
constexpr RowBlocks cuda_row_blocks(int64_t T, int64_t C) {
  if (T <= 0) return {0, 1};
  const int64_t column_groups = (std::max<int64_t>(C, 1) + kCudaColumnsPerBlock - 1) / kCudaColumnsPerBlock;
  const int64_t most = std::max<int64_t>(1, 512 / column_groups);
  const int64_t rows = std::max((T + most - 1) / most, 4 * kCudaWarpsPerRowBlock);
  return {(T + rows - 1) / rows, rows};
}
// Floats from one row of partial sums to the next: rows begin where 16 bytes do.
constexpr int64_t cuda_partial_stride(int64_t C) {
  return (C + 3) / 4 * 4;
}
// Scratch: fp32 [num_sums, num_blocks, stride].
constexpr int64_t column_sums_cuda_scratch_bytes(int64_t T, int64_t C, int64_t num_sums) {
  return num_sums * cuda_row_blocks(T, C).num_blocks * cuda_partial_stride(C) * 4;
}
// Additions that a partial sum meets on its way into the column sum, the value added to included.
constexpr int64_t cuda_partial_depth(int64_t num_blocks) {
  return (num_blocks + kCudaPartialStrands - 1) / kCudaPartialStrands + kCudaPartialStrands + 1;
}
// As column_sum_depth.
constexpr double column_sum_cuda_depth(int64_t T, int64_t C) {
  const int64_t num_blocks = cuda_row_blocks(T, C).num_blocks;
  const int64_t num_warps = std::max<int64_t>(1, num_blocks * kCudaWarpsPerRowBlock);
  const int64_t rows_of_a_warp = (T + num_warps - 1) / num_warps;
  return static_cast<double>(rows_of_a_warp + kCudaWarpsPerRowBlock + cuda_partial_depth(num_blocks));
}

}  // namespace plimsoll
