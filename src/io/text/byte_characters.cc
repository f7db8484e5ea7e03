#include "io/text/byte_characters.h"

#include <array>

#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

// Printable bytes are represented by themselves, and the others by code points from 256 on.
std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

}  // namespace

char32_t byte_character(uint8_t byte) {
  static const std::array<char32_t, 256> characters = make_characters();
  return characters[byte];
}

void append_byte_characters(char32_t c, TextSpan span, AlignedText* out) {
  char bytes[4];
  const uint32_t count = encode_utf8(c, bytes);
  for (uint32_t i = 0; i < count; ++i) out->push(byte_character(static_cast<uint8_t>(bytes[i])), span);
}

}  // namespace plimsoll::text
