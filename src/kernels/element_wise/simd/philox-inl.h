// The random numbers of base/philox.h and the dropout factors on vectors, bit for bit equal to the scalar
// functions. Compiled once per instruction set through hwy/foreach_target.h. Thread-safe: pure functions on
// their operands.
#if defined(PLIMSOLL_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_PHILOX_INL_H_
#undef PLIMSOLL_KERNELS_PHILOX_INL_H_
#else
#define PLIMSOLL_KERNELS_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/philox.h"
#include "kernels/element_wise/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// The number of elements that dropout_factors handles at a time.
inline constexpr int64_t kDropoutChunk = 256;
// The number of extra elements that arrays of random numbers need. If a chunk begins inside a block of eight numbers, one more block is
// drawn, and the last vector may contain more numbers than needed.
inline constexpr int64_t kPhiloxSlack = 64;

// Draws the random numbers of blocks [first_block, first_block + num_blocks) with philox4x32<kRounds>, and of up to 7 blocks more to fill a
// vector. A block gives eight numbers of 16 bits: two per word in the order of the words, first the low half.
#if HWY_TARGET == HWY_SCALAR
template <int kRounds>
HWY_INLINE void philox_halves(const RandomSite& where, uint64_t first_block, int64_t num_blocks,
                              uint16_t* to) {
  for (int64_t i = 0; i < num_blocks; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    const std::array<uint32_t, 4> words = philox4x32<kRounds>(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), where.site, where.step},
        {static_cast<uint32_t>(where.seed), static_cast<uint32_t>(where.seed >> 32)});
    for (size_t n = 0; n < 8; ++n)
      to[8 * i + static_cast<int64_t>(n)] = static_cast<uint16_t>(words[n / 2] >> (16 * (n % 2)));
  }
}
#else
// Computes one block of random numbers per 64-bit lane. Between rounds, the words of the counter are in the lower halves of the lanes. The
// upper halves contain remains of the multiplications and are never read.
template <int kRounds>
HWY_INLINE void philox_halves(const RandomSite& where, uint64_t first_block, int64_t num_blocks,
                              uint16_t* to) {
  const hn::ScalableTag<uint64_t> d64;
  const hn::Repartition<uint32_t, decltype(d64)> d32;
  const auto m0 = hn::Set(d32, kPhiloxM0);
  const auto m1 = hn::Set(d32, kPhiloxM1);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  uint32_t keys[2 * kRounds];
  for (uint32_t round = 0; round < kRounds; ++round) {
    keys[2 * round] = static_cast<uint32_t>(where.seed) + round * kPhiloxW0;
    keys[2 * round + 1] = static_cast<uint32_t>(where.seed >> 32) + round * kPhiloxW1;
  }
  for (int64_t i = 0; i < num_blocks; i += lanes) {
    const auto block = hn::Add(hn::Iota(d64, 0), hn::Set(d64, first_block + static_cast<uint64_t>(i)));
    auto c0 = hn::BitCast(d32, block);
    auto c1 = hn::BitCast(d32, hn::ShiftRight<32>(block));
    auto c2 = hn::Set(d32, where.site);
    auto c3 = hn::Set(d32, where.step);
#pragma GCC unroll 10
    for (int round = 0; round < kRounds; ++round) {
      const auto p0 = hn::MulEven(c0, m0);
      const auto p1 = hn::MulEven(c2, m1);
      c0 = hn::Xor3(hn::BitCast(d32, hn::ShiftRight<32>(p1)), c1, hn::Set(d32, keys[2 * round]));
      c1 = hn::BitCast(d32, p1);
      c2 = hn::Xor3(hn::BitCast(d32, hn::ShiftRight<32>(p0)), c3, hn::Set(d32, keys[2 * round + 1]));
      c3 = hn::BitCast(d32, p0);
    }
    const auto low = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(hn::BitCast(d64, c1))), c0);
    const auto high = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(hn::BitCast(d64, c3))), c2);
    hn::StoreInterleaved2(hn::BitCast(d64, low), hn::BitCast(d64, high), d64,
                          reinterpret_cast<uint64_t*>(to + 8 * i));
  }
}
#endif

// The values that dropout computes from its arguments, once per call.
struct DropoutSetup {
  RandomSite where;
  uint32_t threshold;
  float scale;
};
inline DropoutSetup dropout_setup(double p, const RandomSite& where) {
  return {where, dropout_threshold(p), dropout_scale(p)};
}

// Sets factors[i] to the dropout scale if number i is at least the threshold, otherwise to 0. Reads and writes whole vectors.
HWY_INLINE void factors_of_numbers(const uint16_t* numbers, int64_t count, uint32_t least, float scale,
                                   float* factors) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const hn::Rebind<uint16_t, F32Tag> d16;
  const auto threshold = hn::Set(du, least);
  const F32Vec kept = hn::Set(d, scale);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto dropped = hn::Lt(hn::PromoteTo(du, hn::LoadU(d16, numbers + i)), threshold);
    hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(d, dropped), kept), d, factors + i);
  }
}

// Sets factors[i] to the dropout scale if dropout keeps element first_element + i, otherwise to 0, for i < count. Requires: 0 <= count <=
// kDropoutChunk.
HWY_INLINE void dropout_factors(const DropoutSetup& setup, int64_t first_element, int64_t count,
                                float* factors) {
  alignas(64) uint16_t numbers[kDropoutChunk + 2 * kPhiloxSlack];
  const uint64_t first_block =
      setup.where.first_block + static_cast<uint64_t>(first_element) / kHalvesOfBlock;
  const int64_t lead = first_element % static_cast<int64_t>(kHalvesOfBlock);
  philox_halves<kHalfRounds>(setup.where, first_block, (lead + count + 7) / 8, numbers);
  factors_of_numbers(numbers + lead, count, setup.threshold, setup.scale, factors);
}
// The number of elements that the `factors` array of dropout_factors must have.
inline constexpr int64_t kDropoutFactors = kDropoutChunk + kPhiloxSlack;

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_KERNELS_PHILOX_INL_H_
