// Reads JSON from untrusted files. base/python_json.h writes JSON.
//
// Thread-safety: pure functions. Errors: kBadData; the message names the file, line and column.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/python_json.h"

namespace plimsoll {

// Parses the text of a file. In addition to syntax errors it refuses duplicate keys in one object, nesting
// deeper than internal::kMaxJsonDepth, NUL bytes, NaN and infinities, a byte-order mark, and anything after
// the value. `file` is the name for messages.
nlohmann::json parse_untrusted_json(std::string_view text, const std::string& file);

// Does the same for a text that must be an object.
nlohmann::json parse_untrusted_json_object(std::string_view text, const std::string& file);

}  // namespace plimsoll
