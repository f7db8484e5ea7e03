#include "kernels/matmul/pack_pairs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "device/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/pack_pairs_cpu.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPairs = kPairTileTerms / 2;
using Words = hn::CappedTag<uint32_t, 16>;
using WordVec = hn::Vec<Words>;

HWY_INLINE WordVec rounded(WordVec bits) {
  const hn::RebindToFloat<Words> d;
  return rounded_to_upper_half(d, hn::BitCast(d, bits));
}

// Rounds two vectors to bf16 and returns 32-bit words: the lower half of a word is an element of `first`, the upper half the same element
// of `second`.
HWY_INLINE WordVec pairs_of(WordVec first, WordVec second) {
  return hn::Or(hn::ShiftRight<16>(rounded(first)), hn::And(rounded(second), hn::Set(Words(), 0xffff0000u)));
}

// The prefetch distance: the elements that are prefetched follow those that are being packed by this number of elements in a row.
constexpr int64_t kAhead = 128;

// Packs one whole tile of a matrix that is stored as [k, n]. `stride` is the number of elements per row.
void pack_rows(const uint32_t* b, int64_t stride, int64_t columns, uint32_t* tile) {
  const Words d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < kPairs; ++p) {
    const uint32_t* first = b + 2 * p * stride;
    const uint32_t* second = first + stride;
    for (int64_t c = 0; c < columns; c += 16) {
      hwy::Prefetch(first + kAhead + c);
      hwy::Prefetch(second + kAhead + c);
    }
    for (int64_t c = 0; c < columns; c += lanes) {
      hn::StoreU(pairs_of(hn::LoadU(d, first + c), hn::LoadU(d, second + c)), d, tile + p * columns + c);
    }
  }
}

// Packs the 32 terms of a column, which are adjacent in memory, into 16 words.
HWY_INLINE void pack_row(const uint32_t* terms, uint32_t* words) {
  const Words d;
#if HWY_TARGET == HWY_SCALAR
  for (int64_t p = 0; p < kPairs; ++p) {
    hn::StoreU(pairs_of(hn::LoadU(d, terms + 2 * p), hn::LoadU(d, terms + 2 * p + 1)), d, words + p);
  }
#else
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < kPairTileTerms; t += 2 * lanes) {
    const auto low = hn::LoadU(d, terms + t);
    const auto high = hn::LoadU(d, terms + t + lanes);
    hn::StoreU(pairs_of(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)), d, words + t / 2);
  }
#endif
}

// Packs one whole tile of a matrix that is stored as [n, k], so that the terms of a column are adjacent in memory. The terms of each column
// become 16 words. A block of such words is then transposed by gather instructions.
void pack_columns(const uint32_t* b, int64_t stride, int64_t columns, uint32_t* tile) {
  const Words d;
  const hn::RebindToSigned<Words> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto across = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(kPairs)));
  alignas(64) uint32_t block[16 * kPairs];
  for (int64_t c = 0; c < columns; c += lanes) {
    for (int64_t row = 0; row < lanes; ++row) {
      const uint32_t* terms = b + (c + row) * stride;
      hwy::Prefetch(terms + kAhead / 2);
      hwy::Prefetch(terms + kAhead / 2 + 16);
      pack_row(terms, block + row * kPairs);
    }
    for (int64_t p = 0; p < kPairs; ++p) {
      hn::StoreU(hn::GatherIndex(d, block + p, across), d, tile + p * columns + c);
    }
  }
}

// Packs a tile that extends past the edge of the matrix. The elements are first copied to a whole tile that is padded with zeros.
void pack_edge(const uint32_t* b, int64_t stride, bool transposed, int64_t terms, int64_t columns_inside,
               int64_t columns, uint32_t* tile) {
  alignas(64) uint32_t whole[64 * kPairTileTerms] = {};
  const int64_t rows = transposed ? columns_inside : terms;
  const int64_t width = transposed ? terms : columns_inside;
  const int64_t pitch = transposed ? kPairTileTerms : columns;
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(whole + row * pitch, b + row * stride, static_cast<size_t>(width) * sizeof(uint32_t));
  }
  if (transposed) {
    pack_columns(whole, pitch, columns, tile);
  } else {
    pack_rows(whole, pitch, columns, tile);
  }
}

void pack_tile(const float* plain, int64_t k, int64_t n, bool transposed, const PairTiles& tiles,
               int64_t term_tile, int64_t column_tile, BF16* packed) {
  const auto* b = reinterpret_cast<const uint32_t*>(plain);
  const int64_t stride = transposed ? k : n;
  const int64_t column = column_tile * tiles.columns;
  const int64_t term = term_tile * kPairTileTerms;
  const int64_t columns_inside = std::min(tiles.columns, n - column);
  const int64_t terms = std::min(kPairTileTerms, k - term);
  const uint32_t* from = transposed ? b + column * stride + term : b + term * stride + column;
  auto* to = reinterpret_cast<uint32_t*>(packed + column_tile * tiles.column_tile_stride +
                                         term_tile * tiles.term_tile_stride);
  if (terms < kPairTileTerms || columns_inside < tiles.columns) {
    pack_edge(from, stride, transposed, terms, columns_inside, tiles.columns, to);
  } else if (transposed) {
    pack_columns(from, stride, tiles.columns, to);
  } else {
    pack_rows(from, stride, tiles.columns, to);
  }
}

}  // namespace

void pack_pairs(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                BF16* packed) {
  const bool transposed = transpose == Transpose::kYes;
  const int64_t column_tiles = (n + tiles.columns - 1) / tiles.columns;
  const int64_t term_tiles = (k + kPairTileTerms - 1) / kPairTileTerms;
  // The number of tiles per task. A task packs up to 16 tiles (for which it reads 128 KiB) that are adjacent along the rows of the plain
  // matrix, so that it reads long contiguous pieces of these rows.
  constexpr int64_t kTilesPerTask = 16;
  const int64_t along = transposed ? term_tiles : column_tiles;
  const int64_t across = transposed ? column_tiles : term_tiles;
  const int64_t tasks_along = (along + kTilesPerTask - 1) / kTilesPerTask;
  parallel_for(across * tasks_along, [&](int64_t task, int) HWY_ATTR {
    const int64_t first = task % tasks_along * kTilesPerTask;
    const int64_t last = std::min(along, first + kTilesPerTask);
    for (int64_t tile = first; tile < last; ++tile) {
      pack_tile(b, k, n, transposed, tiles, transposed ? tile : task / tasks_along,
                transposed ? task / tasks_along : tile, packed);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(pack_pairs);

void pack_pairs_cpu(const float* b, int64_t k, int64_t n, Transpose transpose, const PairTiles& tiles,
                    BF16* packed) {
  PLIMSOLL_CHECK(tiles.columns >= 16 && tiles.columns <= 64 && tiles.columns % 16 == 0,
                 "the tiles of packed pairs must have 16, 32, 48 or 64 columns, but have {}", tiles.columns);
  HWY_DYNAMIC_DISPATCH(pack_pairs)(b, k, n, transpose, tiles, packed);
}

}  // namespace plimsoll
#endif  // HWY_ONCE
