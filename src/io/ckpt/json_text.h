// JSON of unknown origin, read with guards, and text from files as messages show it. base/python_json.h
// writes JSON.
//
// Thread-safety: pure functions. Errors: kBadData naming the file, line and column.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/python_json.h"

namespace plimsoll {

// Deeper nesting than any configuration has; the limit keeps recursion over the value bounded.
inline constexpr int kMaxJsonDepth = 64;

// The value of a text from a file. Refused beyond the grammar: duplicate keys in one object, nesting over
// kMaxJsonDepth, NUL bytes, NaN and infinities, a byte-order mark, anything after the value. `file` is the
// name for messages.
nlohmann::json parse_untrusted_json(std::string_view text, const std::string& file);

// The same, and the value is an object.
nlohmann::json parse_untrusted_json_object(std::string_view text, const std::string& file);

// Text from a file as it can stand in a message: control characters and invalid UTF-8 as \xNN, cut at 120
// bytes.
std::string printable(std::string_view text);
// The same in single quotes.
std::string quoted_name(std::string_view name);

// "line 3, column 7" of a byte offset. Columns count bytes, from 1.
std::string text_position(std::string_view text, size_t offset);

}  // namespace plimsoll
