// The printable characters that represent bytes in byte-level tokenizers, as in GPT-2. Thread-safe: free functions.
#pragma once

#include "io/text/aligned_text.h"

namespace plimsoll::text {

// Returns the character of a byte.
char32_t byte_character(uint8_t byte);

// Appends the characters of the UTF-8 bytes of a code point. All of them have its source.
void append_byte_characters(char32_t c, TextSpan span, AlignedText* out);

}  // namespace plimsoll::text
