// Content hashes: XXH3 with 64 and 128 bits, computed by libxxhash. The hashes are not cryptographic: they
// detect damage, not manipulation.
//
// The free functions are thread-safe. A stream may be used by one thread at a time and owns its state (under
// 1 KiB).
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

// Return the XXH3 hash of the bytes. It equals the result of a HashStream over the same bytes, and the output of
// `xxhsum -H3` for 64 bits or `xxhsum -H2` for 128 bits.
uint64_t hash64(std::span<const std::byte> bytes);
uint64_t hash64(std::string_view text);
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

// Formats a hash as 16 or 32 lower-case hexadecimal digits, most significant digit first.
std::string to_hex(uint64_t hash);
std::string to_hex(const Hash128& hash);
// Parses the result of to_hex. Returns nothing if the text is not exactly 32 hexadecimal digits.
std::optional<Hash128> parse_hash128(std::string_view hex);

// Computes the hash of bytes that arrive in pieces. The boundaries between the pieces do not matter.
class HashStream64 {
 public:
  HashStream64();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // Returns the hash of everything so far; more data may follow.
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
