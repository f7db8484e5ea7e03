// The scratch memory of the optimizer's kernels: the host-only part of their contracts. Thread-safe:
// constants.
#pragma once

#include <cstdint>

namespace plimsoll {

// Blocks of threads that share the elements of a global norm on a GPU, and what each leaves: its sum of
// squares and the first tensor that it found not finite. Several times as many as a card holds at once: those
// that come late make up for those that are slow.
inline constexpr int64_t kGlobalNormCudaBlocks = 4096;
inline constexpr int64_t kGlobalNormCudaScratchBytes = kGlobalNormCudaBlocks * 16;

// Adafactor works on tiles of a matrix; a vector is a matrix of one row.
inline constexpr int64_t kAdafactorTileRows = 128;
inline constexpr int64_t kAdafactorTileColumns = 1024;

// Where the parts of a tensor's scratch begin, in bytes: per row and tile column the sum of squares (f32),
// per tile row and column the same (f32), per tile the sums of u^2 and p^2 (f64 each), and one f64, the mean
// of the rows. Vectors have neither of the first.
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

}  // namespace plimsoll
