// Formats what a command prints with --json. Thread-safe: a pure function.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::cli {

// Returns the object with "schema_version" before its other fields, indented, and with a newline at its end. Bytes of paths that are no
// UTF-8 are replaced.
inline std::string json_text(nlohmann::ordered_json fields) {
  nlohmann::ordered_json object{{"schema_version", 1}};
  object.update(fields);
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll::cli
