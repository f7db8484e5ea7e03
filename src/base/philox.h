// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011, section 5.2). Thread-safe: pure functions. The same (seed, step, site, element) gives
// the same number on every device, so that a recomputed dropout mask is the same mask and none is stored.
//
// The numbering that every kernel on every device follows, bit for bit:
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of block, high 32 bits of block, site, step}   with block = element / 4
//   the number of `element` is lane (element % 4) of the output.
// `site` names the op that draws (one per dropout in the graph), `step` is the number of the micro-batch in
// the run.
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
constexpr std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter,
                                                std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kPhiloxW0;
    key[1] += kPhiloxW1;
  }
  return counter;
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

// Dropout keeps an element when its number is at least this: round(p * 2^32), at most 2^32 - 1. Requires 0 <=
// p < 1.
inline uint32_t dropout_threshold(double p) {
  const double scaled = std::nearbyint(p * 4294967296.0);
  return scaled >= 4294967295.0 ? 4294967295u : static_cast<uint32_t>(scaled);
}

// What a kept element is multiplied by: fp32 of 1 / (1 - p).
inline float dropout_scale(double p) {
  return static_cast<float>(1.0 / (1.0 - p));
}

}  // namespace plimsoll
