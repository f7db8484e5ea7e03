// A model whose logits are a function of the last two tokens only, so that tests of search algorithms need no neural network.
// fixtures/make_generation.py uses the same function. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// The finalizer of MurmurHash3, which mixes the bits of a number.
constexpr uint32_t mixed_bits(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

// Returns the V logits after the tokens a and b: 24-bit numbers divided by 2^21, which fp32 represents exactly.
inline std::vector<float> table_row(uint32_t salt, int32_t a, int32_t b, int64_t vocab) {
  const uint32_t base =
      mixed_bits(mixed_bits(salt) ^ static_cast<uint32_t>(a)) ^ (static_cast<uint32_t>(b) * 0x9e3779b1u);
  std::vector<float> row(static_cast<size_t>(vocab));
  for (size_t v = 0; v < row.size(); ++v) {
    const uint32_t bits = mixed_bits(base ^ mixed_bits(static_cast<uint32_t>(v) + 77u));
    row[v] = static_cast<float>(bits >> 8) * 0x1p-21f;
  }
  return row;
}

inline std::vector<float> table_logits(uint32_t salt, std::span<const int32_t> history, int64_t vocab) {
  return table_row(salt, history.size() > 1 ? history[history.size() - 2] : 0, history.back(), vocab);
}

}  // namespace plimsoll
