// Counter-based random numbers: Philox4x32 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011, section 5.2). Thread-safe: pure functions. The same (seed, step, site, element) gives
// the same number on every device. A recomputed dropout mask is therefore the same mask, and no mask is
// stored.
//
// Every kernel on every device uses this numbering, bit for bit:
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of block, high 32 bits of block, site, step}
// `site` identifies the op that draws (one per dropout in the graph). `step` is the number of the micro-batch
// in the run.
//
// General use (philox_element): ten rounds, block = element / 4, and the random number of `element` is lane
// (element % 4) of the output, 32 bits. Dropout and stochastic rounding (random_half): seven rounds, the
// smallest number of rounds for which Philox4x32 passes BigCrush (table 2 of the paper), block = element / 8.
// The random number of `element` has 16 bits: the low half of lane (element / 2 % 4) if `element` is even,
// otherwise the high half.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace plimsoll {

inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;

// Computes Philox: returns the four 32-bit random numbers that belong to this counter and key.
template <int kRounds>
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kPhiloxW0;
    key[1] += kPhiloxW1;
  }
  return counter;
}
constexpr std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter,
                                                std::array<uint32_t, 2> key) {
  return philox4x32<10>(counter, key);
}

// Identifies the source of random numbers: the seed of the run, the number of the micro-batch (`step`), and a number that
// separates the random numbers of one op from those of another (`site`).
struct RandomSite {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;
  // Used if this rank has only a part of the tensor for which numbers are drawn: the number of blocks of eight elements before this part.
  // The rank then draws the same random numbers for its elements as a single rank would for the whole tensor. Only random_half() uses it.
  uint64_t first_block = 0;
};

// Returns the four random numbers of elements 4*block to 4*block+3.
constexpr std::array<uint32_t, 4> philox_block(const RandomSite& where, uint64_t block) {
  return philox4x32_10(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), where.site, where.step},
      {static_cast<uint32_t>(where.seed), static_cast<uint32_t>(where.seed >> 32)});
}

constexpr uint32_t philox_element(const RandomSite& where, uint64_t element) {
  return philox_block(where, element / 4)[element % 4];
}

inline constexpr int kHalfRounds = 7;
inline constexpr uint64_t kHalvesOfBlock = 8;

// Returns four 32-bit words that contain the 16-bit random numbers of elements 8*block to 8*block+7. The low half of a word
// belongs to the first of its two elements.
constexpr std::array<uint32_t, 4> random_halves(const RandomSite& where, uint64_t block) {
  block += where.first_block;
  return philox4x32<kHalfRounds>(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), where.site, where.step},
      {static_cast<uint32_t>(where.seed), static_cast<uint32_t>(where.seed >> 32)});
}

constexpr uint16_t random_half(const RandomSite& where, uint64_t element) {
  const uint32_t word = random_halves(where, element / kHalvesOfBlock)[element / 2 % 4];
  return static_cast<uint16_t>(element % 2 == 0 ? word & 0xffffu : word >> 16);
}

// Returns the smallest 16-bit random number for which dropout keeps an element: round(p * 2^16), at most 2^16 - 1. The
// probability of dropping an element is thus p rounded to 16 bits, with an error of at most 2^-17 = 7.6e-6
// (up to p = 1 - 2^-16). Requires: 0 <= p < 1.
inline uint32_t dropout_threshold(double p) {
  const double scaled = std::nearbyint(p * 65536.0);
  return scaled >= 65535.0 ? 65535u : static_cast<uint32_t>(scaled);
}

// Returns the factor for kept elements: 1 / (1 - p) in fp32, with the rounded p, so that the expectation of
// the output of dropout equals its input.
inline float dropout_scale(double p) {
  return static_cast<float>(65536.0 / (65536.0 - static_cast<double>(dropout_threshold(p))));
}

}  // namespace plimsoll
