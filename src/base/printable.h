// Makes text that others wrote safe for a message. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Returns the text with control characters and invalid UTF-8 written as \xNN, so that it can neither change the screen nor forge a line of
// a log, and cuts it after `most_bytes`.
std::string printable(std::string_view text, size_t most_bytes = 120);

// Returns printable(name) in single quotes.
std::string quoted_name(std::string_view name);

}  // namespace plimsoll
