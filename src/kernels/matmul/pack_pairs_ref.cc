#include "kernels/matmul/pack_pairs.h"

namespace plimsoll {

void pack_pairs_ref(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                    BF16* packed) {
  const int64_t terms = (k + kPairTileTerms - 1) / kPairTileTerms * kPairTileTerms;
  const int64_t columns = (n + tiles.columns - 1) / tiles.columns * tiles.columns;
  for (int64_t i = 0; i < terms; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool inside = i < k && j < n;
      const float value = !inside ? 0.0f : transpose == Transpose::kYes ? b[j * k + i] : b[i * n + j];
      const int64_t tile =
          j / tiles.columns * tiles.column_tile_stride + i / kPairTileTerms * tiles.term_tile_stride;
      const int64_t pair = i % kPairTileTerms / 2;
      packed[tile + (pair * tiles.columns + j % tiles.columns) * 2 + i % 2] = BF16{f32_to_bf16(value)};
    }
  }
}

}  // namespace plimsoll
