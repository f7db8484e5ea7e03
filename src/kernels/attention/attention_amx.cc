#include "kernels/attention/attention_amx.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/amx_tiles.h"

namespace plimsoll {
namespace {

// Blocks are brought into tiles 64 rows, 64 columns and 64 terms at a time: 8 KiB each of A and of B.
constexpr int64_t kBlock = 64;
constexpr int64_t kBlockTiles = kBlock / kTileRows;
constexpr int64_t kBlockTermTiles = kBlock / kTileTerms;

struct Staged {
  alignas(64) std::byte a[kBlockTiles][kBlockTermTiles][kTileBytes];
  alignas(64) std::byte b[kBlockTermTiles][kBlockTiles][kTileBytes];
  alignas(64) float c[2][2][kTileRows * kTileRows];
};

// Words of two bf16: `first` in the lower halves.
PLIMSOLL_AMX_INLINE __m512i pairs_of(__m512 first, __m512 second) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// 16 rows of up to 32 terms, stored by rows; what is missing is zero.
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

// The same of an operand that is stored by depth.
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

// Up to 32 terms of 16 columns of B.
PLIMSOLL_AMX_INLINE void stage_b(const float* b, int64_t ldb, int64_t terms, std::byte* tile) {
  for (int64_t p = 0; p < 16; ++p) {
    const __m512 first = 2 * p < terms ? _mm512_loadu_ps(b + 2 * p * ldb) : _mm512_setzero_ps();
    const __m512 second = 2 * p + 1 < terms ? _mm512_loadu_ps(b + (2 * p + 1) * ldb) : _mm512_setzero_ps();
    _mm512_store_si512(tile + p * kTilePitch, pairs_of(first, second));
  }
}

// Up to 2 x 2 tiles of C. Rows beyond the result go through a copy.
struct TileBlock {
  float* c;
  int64_t ldc;
  int64_t rows;  // of the result from the block's first on
  bool two_rows, two_columns;
  bool adds;
  int64_t term_tiles;
};

PLIMSOLL_AMX void multiply_tiles(const TileBlock& block, int64_t row_tile, int64_t column_tile,
                                 Staged& staged) {
  const auto whole = [&](int i) { return block.rows >= (i + 1) * kTileRows; };
  float* c[2][2];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      float* there = block.c + i * kTileRows * block.ldc + j * kTileRows;
      c[i][j] = whole(i) ? there : staged.c[i][j];
      if (whole(i) || !block.adds || (i == 1 && !block.two_rows) || (j == 1 && !block.two_columns)) continue;
      const int64_t rows = block.rows - i * kTileRows;
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(staged.c[i][j] + r * kTileRows, there + r * block.ldc, kTilePitch);
      }
      std::memset(staged.c[i][j] + rows * kTileRows, 0, static_cast<size_t>((kTileRows - rows) * kTilePitch));
    }
  }
  memory_is_read(&staged);
  const auto pitch = [&](int i) { return static_cast<size_t>(whole(i) ? block.ldc * 4 : kTilePitch); };
  if (block.adds) {
    _tile_loadd(0, c[0][0], pitch(0));
    if (block.two_columns) _tile_loadd(1, c[0][1], pitch(0));
    if (block.two_rows) _tile_loadd(2, c[1][0], pitch(1));
    if (block.two_rows && block.two_columns) _tile_loadd(3, c[1][1], pitch(1));
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
  _tile_stored(0, c[0][0], pitch(0));
  if (block.two_columns) _tile_stored(1, c[0][1], pitch(0));
  if (block.two_rows) _tile_stored(2, c[1][0], pitch(1));
  if (block.two_rows && block.two_columns) _tile_stored(3, c[1][1], pitch(1));
  for (int i = 0; i < (block.two_rows ? 2 : 1); ++i) {
    if (whole(i)) continue;
    for (int j = 0; j < (block.two_columns ? 2 : 1); ++j) {
      float* there = block.c + i * kTileRows * block.ldc + j * kTileRows;
      for (int64_t r = 0; r < block.rows - i * kTileRows; ++r) {
        std::memcpy(there + r * block.ldc, staged.c[i][j] + r * kTileRows, kTilePitch);
      }
    }
  }
}

int64_t tiles_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

PLIMSOLL_AMX void multiply_blocks(const AmxProduct& p) {
  Staged staged;
  for (int64_t k = 0; k < p.depth; k += kBlock) {
    const int64_t terms = std::min(kBlock, p.depth - k);
    const int64_t term_tiles = tiles_of(terms, kTileTerms);
    for (int64_t n = 0; n < p.columns; n += kBlock) {
      const int64_t column_tiles = tiles_of(std::min(kBlock, p.columns - n), kTileRows);
      for (int64_t kt = 0; kt < term_tiles; ++kt) {
        for (int64_t j = 0; j < column_tiles; ++j) {
          stage_b(p.b + (k + kt * kTileTerms) * p.ldb + n + j * kTileRows, p.ldb, terms - kt * kTileTerms,
                  staged.b[kt][j]);
        }
      }
      for (int64_t m = 0; m < p.rows; m += kBlock) {
        const int64_t rows = std::min(kBlock, p.rows - m);
        const int64_t row_tiles = tiles_of(rows, kTileRows);
        for (int64_t i = 0; i < row_tiles; ++i) {
          const int64_t row = m + i * kTileRows;
          for (int64_t kt = 0; kt < term_tiles; ++kt) {
            const int64_t term = k + kt * kTileTerms;
            if (p.left == LeftOperand::kByRow) {
              stage_rows(p.a + row * p.lda + term, p.lda, p.rows - row, p.depth - term, staged.a[i][kt]);
            } else {
              stage_columns(p.a + term * p.lda + row, p.lda, p.rows - row, p.depth - term, staged.a[i][kt]);
            }
          }
        }
        for (int64_t i = 0; i < row_tiles; i += 2) {
          for (int64_t j = 0; j < column_tiles; j += 2) {
            multiply_tiles({.c = p.c + (m + i * kTileRows) * p.ldc + n + j * kTileRows,
                            .ldc = p.ldc,
                            .rows = rows - i * kTileRows,
                            .two_rows = i + 1 < row_tiles,
                            .two_columns = j + 1 < column_tiles,
                            .adds = k > 0 || p.start == ProductStart::kStored,
                            .term_tiles = term_tiles},
                           i, j, staged);
          }
        }
      }
    }
  }
}

}  // namespace

void multiply_amx(const AmxProduct& product) {
  multiply_blocks(product);
}

}  // namespace plimsoll
