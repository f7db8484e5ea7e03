// Content hashes: XXH3 of 64 and 128 bits, through libxxhash. Not cryptographic: they find damage, not
// malice.
//
// Free functions are thread-safe; a stream belongs to one thread at a time and owns its state (under 1 KiB).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

// XXH3 of the bytes, equal to what a stream over the same bytes gives and to what `xxhsum -H3` / `-H2` print.
uint64_t hash64(std::span<const std::byte> bytes);
uint64_t hash64(std::string_view text);
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

// Lower-case hexadecimal, most significant digit first, always 16 or 32 digits.
std::string to_hex(uint64_t hash);
std::string to_hex(const Hash128& hash);
// The inverse of to_hex; nothing unless the text is exactly 32 hexadecimal digits.
std::optional<Hash128> parse_hash128(std::string_view hex);

// The hash of bytes that arrive in pieces; where the pieces end does not matter.
class HashStream64 {
 public:
  HashStream64();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The hash of everything so far; more may follow.
  uint64_t digest() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

class HashStream128 {
 public:
  HashStream128();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  Hash128 digest() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace plimsoll
