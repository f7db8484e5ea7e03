// An fp32 number as a bf16 that stands for it in products and the 16 bits that make it whole again: a weight
// that needs no second copy. Thread-safe: pure functions.
//
// The upper part is the number rounded to nearest, a tie away from zero. To even would not do: an even upper
// part would then stand for 65537 numbers, which 16 bits cannot tell apart; rounded away, each stands for
// 65536.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

struct SplitF32 {
  uint16_t high = 0;  // bf16
  uint16_t low = 0;   // the lower 16 bits of the number
};

// A NaN stays a quiet NaN in both, but for its payload.
constexpr SplitF32 split_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x0040u), 0};
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<uint16_t>(bits & 0xffffu)};
}

// The number that was split, bit for bit.
constexpr float join_f32(SplitF32 parts) {
  const uint32_t upper = static_cast<uint16_t>(parts.high - (parts.low >> 15));
  return std::bit_cast<float>(upper << 16 | parts.low);
}

// One of the two bf16 next to the number, the larger one (in magnitude) with the probability of how near the
// number is to it: `noise` is 16 random bits. Its mean is the number, so that updates below the spacing of
// bf16 are not lost. A number that bf16 holds stays as it is.
constexpr uint16_t round_stochastically(float value, uint16_t noise) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + noise) >> 16);
}

}  // namespace plimsoll
