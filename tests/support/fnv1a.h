// 64-bit FNV-1a hash, for seeds and for fixtures of other programs that contain such hashes. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::test {

inline constexpr uint64_t kFnv1aStart = 0xCBF29CE484222325u;

// Adds the number `next` to the hash and returns the new hash. The FNV-1a algorithm adds single bytes, but some fixtures contain hashes to
// which whole 64-bit numbers were added.
constexpr uint64_t fnv1a(uint64_t hash, uint64_t next) {
  return (hash ^ next) * 0x100000001B3u;
}

constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = kFnv1aStart;
  for (const char c : text) hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace plimsoll::test
