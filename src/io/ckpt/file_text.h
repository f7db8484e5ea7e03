// Formats text from files for messages. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Makes text from a file safe for a message: writes control characters and invalid UTF-8 as \xNN and cuts the
// text at 120 bytes.
std::string printable(std::string_view text);
// Does the same and adds single quotes.
std::string quoted_name(std::string_view name);

// Returns the position of a byte offset as "line 3, column 7". Columns count bytes from 1.
std::string text_position(std::string_view text, size_t offset);

}  // namespace plimsoll
