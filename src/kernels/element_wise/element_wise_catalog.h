// The sizes of a call of a kernel that processes the rows of a [T, C] tensor, and the blocks of rows into which a sum over rows is divided.
// The blocks depend on the shape alone, so that a sum has the same bits for any number of threads. Kernels and the memory plan compute the
// scratch memory of such a sum by the same formulas. Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The sizes of a call of an element-wise, row-wise or loss kernel: the shape of its main operand. A tensor that is not a matrix counts as
// one row of all its elements.
struct RowsProblem {
  int64_t rows = 0;          // number of rows: T or, in the headers of losses, B
  int64_t columns = 0;       // number of columns: C or, in the headers of losses, K
  int64_t sums_per_row = 1;  // number of values per row that a loss on a GPU stores before it adds them
};

// The division of T rows into blocks. Block i contains rows [i * rows_per_block, min(T, (i + 1) * rows_per_block)).
struct RowBlocks {
  int64_t num_blocks = 0;
  int64_t rows_per_block = 1;
};

// Returns at most 64 blocks, which give enough parallelism and need little scratch memory. A block has at least 16 rows, so that combining
// the partial sums moves few bytes compared with what the blocks read, and at least 32768 elements, so that assigning a block to a thread
// costs little.
constexpr RowBlocks row_blocks(int64_t T, int64_t C) {
  if (T <= 0) return {0, 1};
  const int64_t by_work = (32768 + std::max<int64_t>(C, 1) - 1) / std::max<int64_t>(C, 1);
  const int64_t rows = std::max({(T + 63) / 64, by_work, int64_t{16}});
  return {(T + rows - 1) / rows, rows};
}

// Returns the distance in floats between two rows of partial sums. At least two cache lines separate values that two threads write, for any
// address of the scratch memory, because processors fetch cache lines in pairs, and sharing a pair is expensive (scale_shift_bwd, 1024 x
// 768, 2 threads of a Xeon of 2023: 392 us with sharing, 299 us without).
constexpr int64_t partial_row_stride(int64_t C) {
  return (C + 15) / 16 * 16 + 32;
}

// Returns the scratch bytes of a kernel that sums num_sums quantities over the rows of a [T, C] tensor: fp32
// [num_sums, num_blocks, stride].
constexpr int64_t column_sums_scratch_bytes(int64_t T, int64_t C, int64_t num_sums) {
  return num_sums * row_blocks(T, C).num_blocks * partial_row_stride(C) * 4;
}

// Returns the largest number of additions in which one term of a column sum takes part. This number, times the unit roundoff, times the sum
// of the magnitudes of all terms, bounds the error of the sum (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2).
constexpr double column_sum_depth(int64_t T, int64_t C) {
  const RowBlocks blocks = row_blocks(T, C);
  return static_cast<double>(std::min(T, blocks.rows_per_block) + blocks.num_blocks + 2);
}

// The division of rows into blocks on a GPU. A thread block handles kCudaColumnsPerBlock adjacent columns, and the warps of all thread
// blocks take the rows in turn. There are enough thread blocks to fill a current GPU twice, but so few that the partial sums have few bytes
// compared with the data that is read.
inline constexpr int64_t kCudaColumnsPerBlock = 256;
inline constexpr int64_t kCudaWarpsPerRowBlock = 8;
// The number of threads that add the partial sums of a column. Each thread adds some of them in order; the results of the threads are then
// added in order.
inline constexpr int64_t kCudaPartialStrands = 32;
constexpr RowBlocks cuda_row_blocks(int64_t T, int64_t C) {
  if (T <= 0) return {0, 1};
  const int64_t column_groups = (std::max<int64_t>(C, 1) + kCudaColumnsPerBlock - 1) / kCudaColumnsPerBlock;
  const int64_t most = std::max<int64_t>(1, 512 / column_groups);
  const int64_t rows = std::max((T + most - 1) / most, 4 * kCudaWarpsPerRowBlock);
  return {(T + rows - 1) / rows, rows};
}
// Returns the distance in floats between two rows of partial sums: each row begins at a multiple of 16 bytes.
constexpr int64_t cuda_partial_stride(int64_t C) {
  return (C + 3) / 4 * 4;
}
// Returns the size in bytes of the scratch memory, an fp32 array [num_sums, num_blocks, stride].
constexpr int64_t column_sums_cuda_scratch_bytes(int64_t T, int64_t C, int64_t num_sums) {
  return num_sums * cuda_row_blocks(T, C).num_blocks * cuda_partial_stride(C) * 4;
}
// Returns the largest number of additions in which one partial sum takes part until the sum of its column is complete. Adding the result to
// the previous value of the output counts as one of them.
constexpr int64_t cuda_partial_depth(int64_t num_blocks) {
  return (num_blocks + kCudaPartialStrands - 1) / kCudaPartialStrands + kCudaPartialStrands + 1;
}
// Returns the same number as column_sum_depth(), but for the order of additions on a GPU.
constexpr double column_sum_cuda_depth(int64_t T, int64_t C) {
  const int64_t num_blocks = cuda_row_blocks(T, C).num_blocks;
  const int64_t num_warps = std::max<int64_t>(1, num_blocks * kCudaWarpsPerRowBlock);
  const int64_t rows_of_a_warp = (T + num_warps - 1) / num_warps;
  return static_cast<double>(rows_of_a_warp + kCudaWarpsPerRowBlock + cuda_partial_depth(num_blocks));
}

namespace catalog_rows {
int64_t one_column_sum_scratch(const RowsProblem& rows);
int64_t two_column_sums_scratch(const RowsProblem& rows);
int64_t one_column_sum_cuda_scratch(const RowsProblem& rows);
int64_t two_column_sums_cuda_scratch(const RowsProblem& rows);
}  // namespace catalog_rows

}  // namespace plimsoll
