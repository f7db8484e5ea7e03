#include "kernels/attention/attention_amx.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/amx_tiles.h"

namespace plimsoll {
namespace {

// Both operands of a product are copied ("staged") into blocks that AMX can load: 64 rows of A (or columns of B), each with 64 terms of the
// sums over k. A block has 8 KiB.
constexpr int64_t kBlock = 64;
constexpr int64_t kBlockTiles = kBlock / kTileRows;
constexpr int64_t kBlockTermTiles = kBlock / kTileTerms;

struct Staged {
  alignas(64) std::byte a[kBlockTiles][kBlockTermTiles][kTileBytes];
  alignas(64) std::byte b[kBlockTermTiles][kBlockTiles][kTileBytes];
  alignas(64) float c[2][2][kTileRows * kTileRows];
};

// Rounds two vectors to bf16 and packs them into a vector of 32-bit words. Word i contains element i of `first` in its lower half and
// element i of `second` in its upper half.
PLIMSOLL_AMX_INLINE __m512i pairs_of(__m512 first, __m512 second) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// Stages 16 rows of an operand that is stored row by row, with up to 32 terms per row. Missing rows and elements become zero.
PLIMSOLL_AMX_INLINE void stage_rows(const float* a, int64_t lda, int64_t rows, int64_t terms,
                                    std::byte* tile) {
  const __mmask16 low = first_lanes(terms), high = first_lanes(terms - 16);
  for (int64_t r = 0; r < kTileRows; ++r) {
    __m512bh row = reinterpret_cast<__m512bh>(_mm512_setzero_si512());
    if (r < rows) {
      const float* from = a + r * lda;
      row = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + 16), _mm512_maskz_loadu_ps(low, from));
    }
    _mm512_store_si512(tile + r * kTilePitch, reinterpret_cast<__m512i>(row));
  }
}

// Stages 16 rows of an operand that is stored transposed (element k of row r is a[k * lda + r]), with up to 32 terms per row.
PLIMSOLL_AMX_INLINE void stage_columns(const float* a, int64_t lda, int64_t rows, int64_t terms,
                                       std::byte* tile) {
  const __mmask16 inside = first_lanes(rows);
  __m512i words[16];
  for (int64_t p = 0; p < 16; ++p) {
    const __m512 first = 2 * p < terms ? _mm512_maskz_loadu_ps(inside, a + 2 * p * lda) : _mm512_setzero_ps();
    const __m512 second =
        2 * p + 1 < terms ? _mm512_maskz_loadu_ps(inside, a + (2 * p + 1) * lda) : _mm512_setzero_ps();
    words[p] = pairs_of(first, second);
  }
  transpose_words(words);
  for (int64_t r = 0; r < kTileRows; ++r) _mm512_store_si512(tile + r * kTilePitch, words[r]);
}

// Stages 16 columns of B, with up to 32 terms per column.
PLIMSOLL_AMX_INLINE void stage_b(const float* b, int64_t ldb, int64_t terms, std::byte* tile) {
  for (int64_t p = 0; p < 16; ++p) {
    const __m512 first = 2 * p < terms ? _mm512_loadu_ps(b + 2 * p * ldb) : _mm512_setzero_ps();
    const __m512 second = 2 * p + 1 < terms ? _mm512_loadu_ps(b + (2 * p + 1) * ldb) : _mm512_setzero_ps();
    _mm512_store_si512(tile + p * kTilePitch, pairs_of(first, second));
  }
}

// Up to 2 x 2 tiles of the result C, which are computed together. If a tile extends past the last row of C, it is loaded and stored through
// a copy.
struct TileBlock {
  float* c;
  int64_t ldc;
  int64_t rows;  // number of rows of the result from this block's first row to the last row of the result
  bool two_rows, two_columns;
  bool adds;
  int64_t term_tiles;

  bool has_tile(int i, int j) const { return (i == 0 || two_rows) && (j == 0 || two_columns); }
  bool is_whole(int i) const { return rows >= (i + 1) * kTileRows; }
  int64_t rows_of_part(int i) const { return rows - i * kTileRows; }
  float* tile(int i, int j) const { return c + i * kTileRows * ldc + j * kTileRows; }
};

// Calls body(i, j) for each tile of the block that extends past the last row of the result.
template <typename Body>
void for_each_part(const TileBlock& block, Body&& body) {
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (block.has_tile(i, j) && !block.is_whole(i)) body(i, j);
    }
  }
}

void copy_parts_in(const TileBlock& block, Staged& staged) {
  for_each_part(block, [&](int i, int j) {
    const int64_t rows = block.rows_of_part(i);
    float* copy = staged.c[i][j];
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(copy + r * kTileRows, block.tile(i, j) + r * block.ldc, kTilePitch);
    std::memset(copy + rows * kTileRows, 0, static_cast<size_t>((kTileRows - rows) * kTilePitch));
  });
}

void copy_parts_out(const TileBlock& block, const Staged& staged) {
  for_each_part(block, [&](int i, int j) {
    for (int64_t r = 0; r < block.rows_of_part(i); ++r)
      std::memcpy(block.tile(i, j) + r * block.ldc, staged.c[i][j] + r * kTileRows, kTilePitch);
  });
}

PLIMSOLL_AMX void multiply_tiles(const TileBlock& block, int64_t row_tile, int64_t column_tile,
                                 Staged& staged) {
  if (block.adds) copy_parts_in(block, staged);
  memory_is_read(&staged);
  const auto at = [&](int i, int j) { return block.is_whole(i) ? block.tile(i, j) : staged.c[i][j]; };
  const auto pitch = [&](int i) {
    return static_cast<size_t>(block.is_whole(i) ? block.ldc * 4 : kTilePitch);
  };
  if (block.adds) {
    _tile_loadd(0, at(0, 0), pitch(0));
    if (block.two_columns) _tile_loadd(1, at(0, 1), pitch(0));
    if (block.two_rows) _tile_loadd(2, at(1, 0), pitch(1));
    if (block.two_rows && block.two_columns) _tile_loadd(3, at(1, 1), pitch(1));
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < block.term_tiles; ++k) {
    _tile_loadd(4, staged.a[row_tile][k], kTilePitch);
    _tile_loadd(6, staged.b[k][column_tile], kTilePitch);
    _tile_dpbf16ps(0, 4, 6);
    if (block.two_columns) {
      _tile_loadd(7, staged.b[k][column_tile + 1], kTilePitch);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (block.two_rows) {
      _tile_loadd(5, staged.a[row_tile + 1][k], kTilePitch);
      _tile_dpbf16ps(2, 5, 6);
      if (block.two_columns) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, at(0, 0), pitch(0));
  if (block.two_columns) _tile_stored(1, at(0, 1), pitch(0));
  if (block.two_rows) _tile_stored(2, at(1, 0), pitch(1));
  if (block.two_rows && block.two_columns) _tile_stored(3, at(1, 1), pitch(1));
  copy_parts_out(block, staged);
}

int64_t tiles_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

// The position of the blocks that are multiplied: the first row m and column n of the result, and the index k of the first term of the
// sums.
struct Corner {
  int64_t m, n, k;

  int64_t row_tiles(const AmxProduct& p) const { return tiles_of(std::min(kBlock, p.rows - m), kTileRows); }
  int64_t column_tiles(const AmxProduct& p) const {
    return tiles_of(std::min(kBlock, p.columns - n), kTileRows);
  }
  int64_t term_tiles(const AmxProduct& p) const {
    return tiles_of(std::min(kBlock, p.depth - k), kTileTerms);
  }
};

PLIMSOLL_AMX void stage_left(const AmxProduct& p, const Corner& at, Staged& staged) {
  for (int64_t i = 0; i < at.row_tiles(p); ++i) {
    const int64_t row = at.m + i * kTileRows;
    for (int64_t kt = 0; kt < at.term_tiles(p); ++kt) {
      const int64_t term = at.k + kt * kTileTerms;
      if (p.left == LeftOperand::kByRow) {
        stage_rows(p.a + row * p.lda + term, p.lda, p.rows - row, p.depth - term, staged.a[i][kt]);
      } else {
        stage_columns(p.a + term * p.lda + row, p.lda, p.rows - row, p.depth - term, staged.a[i][kt]);
      }
    }
  }
}

PLIMSOLL_AMX void stage_right(const AmxProduct& p, const Corner& at, Staged& staged) {
  for (int64_t kt = 0; kt < at.term_tiles(p); ++kt) {
    const int64_t term = at.k + kt * kTileTerms;
    for (int64_t j = 0; j < at.column_tiles(p); ++j) {
      stage_b(p.b + term * p.ldb + at.n + j * kTileRows, p.ldb, p.depth - term, staged.b[kt][j]);
    }
  }
}

void multiply_staged(const AmxProduct& p, const Corner& at, Staged& staged) {
  const int64_t row_tiles = at.row_tiles(p), column_tiles = at.column_tiles(p);
  for (int64_t i = 0; i < row_tiles; i += 2) {
    for (int64_t j = 0; j < column_tiles; j += 2) {
      const int64_t row = at.m + i * kTileRows;
      multiply_tiles({.c = p.c + row * p.ldc + at.n + j * kTileRows,
                      .ldc = p.ldc,
                      .rows = p.rows - row,
                      .two_rows = i + 1 < row_tiles,
                      .two_columns = j + 1 < column_tiles,
                      .adds = at.k > 0 || p.start == ProductStart::kStored,
                      .term_tiles = at.term_tiles(p)},
                     i, j, staged);
    }
  }
}

}  // namespace

void multiply_amx(const AmxProduct& product) {
  Staged staged;
  Corner at{};
  for (at.k = 0; at.k < product.depth; at.k += kBlock) {
    for (at.n = 0; at.n < product.columns; at.n += kBlock) {
      stage_right(product, at, staged);
      for (at.m = 0; at.m < product.rows; at.m += kBlock) {
        stage_left(product, at, staged);
        multiply_staged(product, at, staged);
      }
    }
  }
}

}  // namespace plimsoll
