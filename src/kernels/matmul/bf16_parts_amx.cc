#include "kernels/matmul/bf16_parts_amx.h"

#include "device/cpu/amx_tiles.h"

namespace plimsoll {
namespace {

// A "step" is 32 terms (elements that are multiplied and summed) of 32 rows of A or of 32 columns of B. It contains, for each of the three
// bf16 parts into which the numbers are split, the tile of the first 16 rows or columns and then the tile of the other 16.
constexpr int64_t kPartBytes = 2 * kTileBytes;
static_assert(kPartsStepBytes == kParts * kPartBytes && kPartsStepTerms == kTileTerms);

// Each 32-bit word of a tile contains the bf16 numbers of two terms of a row or column: term i in the lower half and term i + 16 in the
// upper half. The two numbers therefore come from two vectors of fp32 numbers. A shift and a mask convert them back to fp32, to compute
// what their rounding lost. `halves` is the permutation that forms the words, and `upper` is the mask.
struct WordOrder {
  __m512i halves;
  __m512i upper;
};
PLIMSOLL_AMX_INLINE WordOrder word_order() {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i other = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16);
  return {_mm512_or_si512(lane, other), _mm512_set1_epi32(static_cast<int>(0xffff0000u))};
}

// Splits two vectors of fp32 numbers into three bf16 parts each, and writes one row of the tile of each part.
PLIMSOLL_AMX_INLINE void split_words(__m512 first, __m512 second, const WordOrder& order, std::byte* row) {
  for (int64_t part = 0; part < kParts; ++part) {
    const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    const __m512i words = _mm512_permutexvar_epi16(order.halves, rounded);
    _mm512_store_si512(row + part * kPartBytes, words);
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(words, order.upper)));
  }
}

// Loads and transposes 16 rows of 16 numbers. Rows from `rows` on and columns outside the mask are not in the matrix and become zero.
PLIMSOLL_AMX_INLINE void load_transposed(const float* from, int64_t stride, int64_t rows, __mmask16 columns,
                                         __m512i (&words)[16]) {
  for (int64_t r = 0; r < 16; ++r) {
    words[r] = r < rows ? _mm512_maskz_loadu_epi32(columns, from + r * stride) : _mm512_setzero_si512();
  }
  transpose_words(words);
}

PLIMSOLL_AMX_INLINE void split_transposed(__m512i (&first)[16], __m512i (&second)[16], std::byte* tile) {
  const WordOrder order = word_order();
  for (int64_t r = 0; r < 16; ++r) {
    split_words(_mm512_castsi512_ps(first[r]), _mm512_castsi512_ps(second[r]), order, tile + r * kTilePitch);
  }
}

// Splits 16 rows of A into tiles. The terms, which are the elements of a row, are adjacent in memory.
PLIMSOLL_AMX void split_row_tile(const float* from, int64_t stride, int64_t rows, int64_t terms,
                                 std::byte* tile) {
  const WordOrder order = word_order();
  const __mmask16 low = first_lanes(terms), high = first_lanes(terms - 16);
  for (int64_t r = 0; r < kTileRows; ++r) {
    const bool there = r < rows;
    const __m512 first = there ? _mm512_maskz_loadu_ps(low, from + r * stride) : _mm512_setzero_ps();
    const __m512 second =
        there && terms > 16 ? _mm512_maskz_loadu_ps(high, from + r * stride + 16) : _mm512_setzero_ps();
    split_words(first, second, order, tile + r * kTilePitch);
  }
}

// Splits 16 rows of A into tiles. The terms, which are the elements of a row, are `stride` elements apart in memory.
PLIMSOLL_AMX void split_row_tile_apart(const float* from, int64_t stride, int64_t rows, int64_t terms,
                                       std::byte* tile) {
  __m512i first[16], second[16];
  load_transposed(from, stride, terms, first_lanes(rows), first);
  load_transposed(from + 16 * stride, stride, terms - 16, first_lanes(rows), second);
  split_transposed(first, second, tile);
}

// Splits 16 columns of B into tiles. The terms, which are the elements of a column, are `stride` elements apart in memory. A row of a tile
// contains two terms of each of the 16 columns.
PLIMSOLL_AMX void split_column_tile_apart(const float* from, int64_t stride, int64_t columns, int64_t terms,
                                          std::byte* tile) {
  const WordOrder order = word_order();
  const __mmask16 inside = first_lanes(columns);
  for (int64_t p = 0; p < 16; ++p) {
    const __m512 first = p < terms ? _mm512_maskz_loadu_ps(inside, from + p * stride) : _mm512_setzero_ps();
    const __m512 second =
        p + 16 < terms ? _mm512_maskz_loadu_ps(inside, from + (p + 16) * stride) : _mm512_setzero_ps();
    split_words(first, second, order, tile + p * kTilePitch);
  }
}

// Splits 16 columns of B into tiles. The terms, which are the elements of a column, are adjacent in memory.
PLIMSOLL_AMX void split_column_tile(const float* from, int64_t stride, int64_t columns, int64_t terms,
                                    std::byte* tile) {
  __m512i first[16], second[16];
  load_transposed(from, stride, columns, first_lanes(terms), first);
  load_transposed(from + 16, stride, terms > 16 ? columns : 0, first_lanes(terms - 16), second);
  split_transposed(first, second, tile);
}

using SplitTile = void (*)(const float* from, int64_t stride, int64_t count, int64_t terms, std::byte* tile);

void split_steps(const PartsSource& source, SplitTile split, std::byte* steps) {
  const bool apart = source.term_layout == TermLayout::kStrided;
  const int64_t along = apart ? source.stride : 1, across = apart ? 1 : source.stride;
  for (int64_t term = 0; term < source.terms; term += kPartsStepTerms, steps += kPartsStepBytes) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = half * kTileRows;
      split(source.from + term * along + at * across, source.stride, source.count - at, source.terms - term,
            steps + half * kTileBytes);
    }
  }
}

PLIMSOLL_AMX_INLINE void load_a(const std::byte* part) {
  _tile_loadd(4, part, kTilePitch);
  _tile_loadd(5, part + kTileBytes, kTilePitch);
}
PLIMSOLL_AMX_INLINE void load_b(const std::byte* part) {
  _tile_loadd(6, part, kTilePitch);
  _tile_loadd(7, part + kTileBytes, kTilePitch);
}
PLIMSOLL_AMX_INLINE void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

}  // namespace

void split_rows_amx(const PartsSource& source, std::byte* steps) {
  split_steps(source, source.term_layout == TermLayout::kStrided ? split_row_tile_apart : split_row_tile,
              steps);
}

void split_columns_amx(const PartsSource& source, std::byte* steps) {
  split_steps(source,
              source.term_layout == TermLayout::kStrided ? split_column_tile_apart : split_column_tile,
              steps);
}

PLIMSOLL_AMX void multiply_parts_amx(const PartsProduct& product) {
  const auto pitch = static_cast<size_t>(product.ldc) * sizeof(float);
  float* c = product.c;
  float* c_below = c + kTileRows * product.ldc;
  memory_is_read(c);
  if (product.start == PartsStart::kStored) {
    _tile_loadd(0, c, pitch);
    _tile_loadd(1, c + kTileRows, pitch);
    _tile_loadd(2, c_below, pitch);
    _tile_loadd(3, c_below + kTileRows, pitch);
  } else if (product.start == PartsStart::kBias) {
    // With a stride of zero, every row of the tile is loaded from the same address, here the bias.
    _tile_loadd(0, product.bias, 0);
    _tile_loadd(1, product.bias + kTileRows, 0);
    _tile_loadd(2, product.bias, 0);
    _tile_loadd(3, product.bias + kTileRows, 0);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::byte* a = product.a;
  const std::byte* b = product.b;
  // The six products of parts are computed in an order in which each shares one operand with the product before it, so that only one
  // operand is loaded per product.
  for (int64_t s = 0; s < product.steps; ++s, a += kPartsStepBytes, b += kPartsStepBytes) {
    load_a(a + 2 * kPartBytes);
    load_b(b);
    add_products();
    load_a(a + kPartBytes);
    add_products();
    load_b(b + kPartBytes);
    add_products();
    load_a(a);
    add_products();
    load_b(b + 2 * kPartBytes);
    add_products();
    load_b(b);
    add_products();
  }
  _tile_stored(0, c, pitch);
  _tile_stored(1, c + kTileRows, pitch);
  _tile_stored(2, c_below, pitch);
  _tile_stored(3, c_below + kTileRows, pitch);
  memory_is_read(c);
}

}  // namespace plimsoll
