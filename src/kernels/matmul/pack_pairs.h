// Converts a plain fp32 matrix to the layout in which bf16 products read their second operand: tiles in which two adjacent terms of a
// column are next to each other. It replaces oneDNN's own conversion, and is as fast as memory permits. Allocates nothing. Thread-safe:
// uses the threads of device/cpu/parallel.h on memory of the caller.
//
//   packed[nt * column_tile_stride + kt * term_tile_stride + (p * columns + c) * 2 + e]
//     = bf16(op(B)[kt * 32 + 2 p + e, nt * columns + c]),   0 beyond k and n;   p < 16, c < columns, e < 2
//
// Rounds to nearest, ties to even, bit for bit like f32_to_bf16 of base/dtype.h. All elements of the
// tiles are written. Aliasing: none allowed.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

inline constexpr int64_t kPairTileTerms = 32;

struct PairTiles {
  int64_t columns = 64;            // number of columns per tile; a multiple of 16, at most 64
  int64_t term_tile_stride = 0;    // distance in elements to the tile of the next 32 terms
  int64_t column_tile_stride = 0;  // distance in elements to the tile of the next `columns` columns
};

// Convert a matrix to the layout above. Requires: b is [k, n] row-major, or [n, k] if `transpose` is kYes; k, n >= 1.
void pack_pairs_ref(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                    BF16* packed);
void pack_pairs_cpu(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                    BF16* packed);

}  // namespace plimsoll
