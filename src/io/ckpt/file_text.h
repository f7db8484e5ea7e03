// Text from files as messages show it. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Text from a file as it can stand in a message: control characters and invalid UTF-8 as \xNN, cut at 120
// bytes.
std::string printable(std::string_view text);
// The same in single quotes.
std::string quoted_name(std::string_view name);

// "line 3, column 7" of a byte offset. Columns count bytes, from 1.
std::string text_position(std::string_view text, size_t offset);

}  // namespace plimsoll
