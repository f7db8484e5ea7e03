#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/check.h"

namespace plimsoll {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Hash128 from_xxh(XXH128_hash_t hash) {
  return {hash.high64, hash.low64};
}

void* new_state() {
  XXH3_state_t* state = XXH3_createState();
  PLIMSOLL_CHECK(state != nullptr, "XXH3_createState returned no memory for a hash state");
  return state;
}

XXH3_state_t* as_state(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

std::optional<uint64_t> parse_hex64(std::string_view hex) {
  uint64_t value = 0;
  for (const char c : hex) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = (value << 4) | digit;
  }
  return value;
}

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
uint64_t hash64(std::string_view text) {
  return hash64(bytes_of(text));
}
Hash128 hash128(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}
Hash128 hash128(std::string_view text) {
  return hash128(bytes_of(text));
}

std::string to_hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}
std::string to_hex(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

std::optional<Hash128> parse_hash128(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  const auto high = parse_hex64(hex.substr(0, 16));
  const auto low = parse_hex64(hex.substr(16));
  if (!high || !low) return std::nullopt;
  return Hash128{*high, *low};
}

HashStream64::HashStream64() : state_(new_state()) {
  XXH3_64bits_reset(as_state(state_.get()));
}
void HashStream64::Free::operator()(void* state) const {
  XXH3_freeState(as_state(state));
}
void HashStream64::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(as_state(state_.get()), bytes.data(), bytes.size());
}
void HashStream64::update(std::string_view text) {
  update(bytes_of(text));
}
uint64_t HashStream64::digest() const {
  return XXH3_64bits_digest(as_state(state_.get()));
}

HashStream128::HashStream128() : state_(new_state()) {
  XXH3_128bits_reset(as_state(state_.get()));
}
void HashStream128::Free::operator()(void* state) const {
  XXH3_freeState(as_state(state));
}
void HashStream128::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(as_state(state_.get()), bytes.data(), bytes.size());
}
void HashStream128::update(std::string_view text) {
  update(bytes_of(text));
}
Hash128 HashStream128::digest() const {
  return from_xxh(XXH3_128bits_digest(as_state(state_.get())));
}

}  // namespace plimsoll
