// Finds invalid UTF-8, for readers that refuse it with their own messages. It does not convert text.
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

// Returns true if the byte is the second or a later byte of a code point.
constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

// Returns the number of bytes of the valid sequence at the start, or 0 if it is invalid. Requires: the text
// is not empty.
constexpr size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) > 0x9F;
  const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

// Returns the offset of the first byte that is not valid UTF-8, or the size of the text if all of it is
// valid.
constexpr size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

}  // namespace plimsoll
