// Positions in a text, for messages about text that a user wrote. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// A position in a text. Lines and columns are counted from 1, and columns are counted in code points.
struct TextPosition {
  size_t line = 1;
  size_t column = 1;
};

// Returns the position of a byte. An offset beyond the text is the end of the text.
TextPosition position_in(std::string_view text, size_t offset);

// Returns, in quotes, the line that contains the byte at `offset`, up to and including this byte. A
// long line is shortened at its start, and control characters are escaped.
std::string line_until(std::string_view text, size_t offset);

}  // namespace plimsoll
