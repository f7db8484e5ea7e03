// The problem descriptions by which the kernel catalog selects the optimizers' kernels, and the scratch memory of these kernels: the
// host-only part of their contracts. Thread-safe: constants and pure functions.
#pragma once

#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// Describes a call of adafactor to the kernel catalog, which needs only the size of the scratch memory of all tensors.
struct AdafactorProblem {
  int64_t scratch_bytes = 0;  // the sum of adafactor_scratch().bytes over all tensors
};

// The number of thread blocks that divide the elements of a global norm on a GPU, and their scratch memory: each writes its sum of squares
// and the first tensor in which it found a number that is not finite. There are several times as many thread blocks as a GPU runs at the
// same time, which balances the load.
inline constexpr int64_t kGlobalNormCudaBlocks = 4096;
inline constexpr int64_t kGlobalNormCudaScratchBytes = kGlobalNormCudaBlocks * 16;

// The size of the tiles in which Adafactor works on a matrix; a vector is a matrix of one row.
inline constexpr int64_t kAdafactorTileRows = 128;
inline constexpr int64_t kAdafactorTileColumns = 1024;

// The offset in bytes of each array in the scratch memory of a tensor: the sums of squares of each row over the columns of each tile (f32),
// the sums of squares of each column over the rows of each tile (f32), the sums of u^2 and p^2 per tile (f64 each), and the mean of the row
// state (one f64). For a vector there are no sums per row or column.
struct AdafactorScratch {
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t row_sums = 0, column_sums = 0, tile_sums = 0, mean = 0, bytes = 0;
  constexpr int64_t tiles() const { return row_tiles * column_tiles; }
};
constexpr AdafactorScratch adafactor_scratch(int64_t rows, int64_t columns, bool is_matrix) {
  const auto rounded = [](int64_t bytes) { return (bytes + 15) / 16 * 16; };
  AdafactorScratch scratch{.row_tiles = (rows + kAdafactorTileRows - 1) / kAdafactorTileRows,
                           .column_tiles = (columns + kAdafactorTileColumns - 1) / kAdafactorTileColumns};
  scratch.column_sums = is_matrix ? rounded(4 * rows * scratch.column_tiles) : 0;
  scratch.tile_sums = scratch.column_sums + (is_matrix ? rounded(4 * scratch.row_tiles * columns) : 0);
  scratch.mean = scratch.tile_sums + 16 * scratch.tiles();
  scratch.bytes = scratch.mean + 16;
  return scratch;
}

struct Problem;
namespace catalog_rows {
int64_t global_norm_cuda_scratch(const Problem& problem);
int64_t adafactor_scratch_of(const AdafactorProblem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
