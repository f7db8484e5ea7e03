// Counter-based random numbers: Philox4x32 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011, section 5.2). Thread-safe: pure functions. The same (seed, step, site, element) gives
// the same number on every device, so that a recomputed dropout mask is the same mask and none is stored.
//
// The numbering that every kernel on every device follows, bit for bit:
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of block, high 32 bits of block, site, step}
// `site` names the op that draws (one per dropout in the graph), `step` is the number of the micro-batch in
// the run.
//
// General use (philox_element): ten rounds, block = element / 4, and the number of `element` is lane
// (element % 4) of the output, 32 bits. Dropout and stochastic rounding (random_half): seven rounds, the
// fewest of Philox4x32 that pass BigCrush (table 2 of the paper), block = element / 8, and the number of
// `element` is 16 bits: of lane (element / 2 % 4) the low half where the element is even, else the high half.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace plimsoll {

inline constexpr uint32_t kPhiloxM0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxM1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxW0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxW1 = 0xBB67AE85u;

// Four 32-bit numbers for one counter and key.
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

// Who draws: the run's seed, the micro-batch's number and the op's site.
struct RandomSite {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t site = 0;
};

// The four numbers of elements 4*block .. 4*block+3.
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

// The four words with the numbers of elements 8*block .. 8*block+7, the low half of a word first.
constexpr std::array<uint32_t, 4> random_halves(const RandomSite& where, uint64_t block) {
  return philox4x32<kHalfRounds>(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), where.site, where.step},
      {static_cast<uint32_t>(where.seed), static_cast<uint32_t>(where.seed >> 32)});
}

constexpr uint16_t random_half(const RandomSite& where, uint64_t element) {
  const uint32_t word = random_halves(where, element / kHalvesOfBlock)[element / 2 % 4];
  return static_cast<uint16_t>(element % 2 == 0 ? word & 0xffffu : word >> 16);
}

// Dropout keeps an element when its number is at least this: round(p * 2^16), at most 2^16 - 1. An element is
// so dropped with probability p rounded to 16 bits, off by at most 2^-17 = 7.6e-6 (up to p = 1 - 2^-16).
// Requires 0 <= p < 1.
inline uint32_t dropout_threshold(double p) {
  const double scaled = std::nearbyint(p * 65536.0);
  return scaled >= 65535.0 ? 65535u : static_cast<uint32_t>(scaled);
}

// What a kept element is multiplied by: fp32 of 1 / (1 - p) for the p that is drawn, so that the expectation
// of what dropout gives is what it was given.
inline float dropout_scale(double p) {
  return static_cast<float>(65536.0 / (65536.0 - static_cast<double>(dropout_threshold(p))));
}

}  // namespace plimsoll
