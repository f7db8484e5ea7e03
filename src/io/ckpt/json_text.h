// Reads JSON from untrusted files. The functions that write JSON are in base/json.h.
//
// Thread-safety: pure functions. Errors: kBadData; the message names the file, line and column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/printable.h"

namespace plimsoll {

// Parses the text of a file. In addition to syntax errors it refuses duplicate keys in one object, nesting
// deeper than internal::kMaxJsonDepth, NUL bytes, NaN and infinities, a byte-order mark, and anything after
// the value. `file` is the name for messages.
nlohmann::json parse_untrusted_json(std::string_view text, const std::string& file);

// Parses a text as parse_untrusted_json() does, and refuses a value that is not an object.
nlohmann::json parse_untrusted_json_object(std::string_view text, const std::string& file);

// Formats text from files for use in messages. Thread-safety: pure functions.

// Returns the name in single quotes, with control characters escaped by printable().
std::string quoted_name(std::string_view name);

// Returns the position of a byte offset as "line 3, column 7". Columns count bytes from 1.
std::string text_position(std::string_view text, size_t offset);

}  // namespace plimsoll
