// Splits an fp32 number into a bf16, which matrix products use, and 16 more bits that restore the exact number. A weight in this form needs
// no separate bf16 copy for matrix products. Thread-safe: pure functions.
//
// The bf16 is the number rounded to nearest, with ties away from zero. Ties to even would not work: an even bf16 would then represent 65537
// fp32 numbers, which 16 bits cannot distinguish. With ties away from zero each bf16 represents 65536 numbers.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

struct SplitF32 {
  uint16_t high = 0;  // the number rounded to bf16
  uint16_t low = 0;   // the lower 16 bits of the fp32 number, which restore it exactly
};

// Splits a number. A NaN stays a quiet NaN in both representations, but may lose its payload.
constexpr SplitF32 split_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x0040u), 0};
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<uint16_t>(bits & 0xffffu)};
}

// Restores the number that was split, bit for bit.
constexpr float join_f32(SplitF32 parts) {
  const uint32_t upper = static_cast<uint16_t>(parts.high - (parts.low >> 15));
  return std::bit_cast<float>(upper << 16 | parts.low);
}

// Rounds to one of the two neighbouring bf16 numbers. `noise` is 16 random bits, and the probability of the
// neighbour with the larger magnitude is the relative distance of the number from the other neighbour. The
// expectation equals the number, so updates below the spacing of bf16 are not lost. A number that is exact in
// bf16 stays unchanged.
constexpr uint16_t round_stochastically(float value, uint16_t noise) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + noise) >> 16);
}

}  // namespace plimsoll
