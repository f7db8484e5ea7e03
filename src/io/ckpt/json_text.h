// JSON of unknown origin, read with guards. base/python_json.h writes JSON.
//
// Thread-safety: pure functions. Errors: kBadData naming the file, line and column.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/python_json.h"

namespace plimsoll {

// The value of a text from a file. Refused beyond the grammar: duplicate keys in one object, nesting over
// internal::kMaxJsonDepth, NUL bytes, NaN and infinities, a byte-order mark, anything after the value. `file`
// is the name for messages.
nlohmann::json parse_untrusted_json(std::string_view text, const std::string& file);

// The same, and the value is an object.
nlohmann::json parse_untrusted_json_object(std::string_view text, const std::string& file);

}  // namespace plimsoll
