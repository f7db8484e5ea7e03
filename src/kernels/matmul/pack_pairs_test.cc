#include "kernels/matmul/pack_pairs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/philox.h"
#include "tests/support/compare.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

// Returns number i of a sequence of fp32 bit patterns of every kind: mostly ordinary numbers, but also numbers halfway between two bf16
// numbers, denormal numbers, infinities and NaN.
uint32_t awkward_bits(uint32_t i) {
  const auto words = philox4x32_10({i, 0, 0, 0}, {11, 13});
  switch (words[1] % 16) {
    case 0:
      return (words[0] & 0xffff0000u) | 0x8000u;
    case 1:
      return words[0] & 0x807fffffu;
    case 2:
      return (words[0] & 0x80000000u) | 0x7f800000u;
    case 3:
      return words[0] | 0x7f800001u;
    default:
      return words[0];
  }
}

PairTiles tiles_of(int64_t k, int64_t columns) {
  const int64_t term_tiles = (k + kPairTileTerms - 1) / kPairTileTerms;
  return {columns, kPairTileTerms * columns, kPairTileTerms * columns * term_tiles};
}

int64_t packed_count(int64_t n, const PairTiles& tiles) {
  return (n + tiles.columns - 1) / tiles.columns * tiles.column_tile_stride;
}

TEST(PackPairs, MatchesTheReferenceBitForBitOnEveryInstructionSet) {
  int cases = 0;
  for (const int64_t k : {1, 2, 31, 32, 33, 96, 545}) {
    for (const int64_t n : {1, 15, 16, 64, 65, 200}) {
      for (const int64_t columns : {16, 32, 48, 64}) {
        for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
          const PairTiles tiles = tiles_of(k, columns);
          GuardedBuffer b("pack_pairs/b", DType::kF32, k * n);
          for (int64_t i = 0; i < k * n; ++i) {
            const uint32_t bits = awkward_bits(static_cast<uint32_t>(i));
            std::memcpy(b.view().as<float>() + i, &bits, sizeof(bits));
          }
          GuardedBuffer want("pack_pairs/want", DType::kBF16, packed_count(n, tiles));
          pack_pairs_ref(b.view().as<float>(), k, n, transpose, tiles, want.view().as<BF16>());
          test::for_each_simd_target([&] {
            GuardedBuffer got("pack_pairs/got", DType::kBF16, packed_count(n, tiles));
            pack_pairs_cpu(b.view().as<float>(), k, n, transpose, tiles, got.view().as<BF16>());
            EXPECT_EQ(std::memcmp(got.view().data, want.view().data, static_cast<size_t>(got.size_bytes())),
                      0)
                << k << " x " << n << ", tiles of " << columns << ", transposed "
                << (transpose == Transpose::kYes);
            EXPECT_EQ(got.broken_guard(), GuardedBuffer::kIntact);
            ++cases;
          });
        }
      }
    }
  }
  EXPECT_GE(cases, 7 * 6 * 4 * 2);
}

TEST(PackPairs, PutsPairsOfTermsNextToEachOther) {
  // Packs the matrix B[k = 3, n = 2] = [1 2; 3 4; 5 6] in tiles of 16 columns. The expected numbers were determined by hand.
  const std::vector<float> b = {1, 2, 3, 4, 5, 6};
  const PairTiles tiles = tiles_of(3, 16);
  std::vector<BF16> packed(static_cast<size_t>(packed_count(2, tiles)), BF16{0xffff});
  pack_pairs_ref(b.data(), 3, 2, Transpose::kNo, tiles, packed.data());
  const auto at = [&](size_t i) { return bf16_to_f32(packed[i].bits); };
  // The packed numbers must be terms 0 and 1 of column 0, then terms 0 and 1 of column 1, and, 32 numbers later, term 2 and padding.
  EXPECT_EQ(at(0), 1.0f);
  EXPECT_EQ(at(1), 3.0f);
  EXPECT_EQ(at(2), 2.0f);
  EXPECT_EQ(at(3), 4.0f);
  EXPECT_EQ(at(4), 0.0f);
  EXPECT_EQ(at(32), 5.0f);
  EXPECT_EQ(at(33), 0.0f);
  EXPECT_EQ(at(34), 6.0f);
}

}  // namespace
}  // namespace plimsoll
