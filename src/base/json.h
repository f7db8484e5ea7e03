// JSON: reading files into trees with guards against hostile text, and writing byte for byte as Python's json module does, so that files
// saved by Plimsoll equal those saved by Hugging Face. Thread-safe: pure functions, except for reading files.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace plimsoll {

// Parses JSON files into trees, with guards against hostile text. Thread-safe: pure functions, except for reading
// files.

// The maximum nesting of a JSON text. Deeper texts are refused before a tree is built, because functions that visit the tree are
// recursive.
inline constexpr int kMaxJsonDepth = 64;

// Returns true if lists and objects are nested in the text more than `most` deep. The text need not be valid JSON.
bool is_nested_deeper(std::string_view text, int most);

// Parses the text of a file. `where` names the file in messages. Errors: kBadData for text that is not JSON (the
// message gives the byte), for numbers beyond a double and for nesting beyond kMaxJsonDepth.
nlohmann::json parse_json(std::string_view text, std::string_view where);

// Reads the object in a file of at most 64 MiB. Errors: kBadData if the file does not contain a JSON object; those
// of read_text_file().
nlohmann::json read_json_object(const std::string& path);

// Writes JSON byte for byte as Python's json module does, so that files saved by Plimsoll equal those saved
// by Hugging Face. Thread-safe: pure functions.

// Formats a value as Python's json.dumps(value, indent=indent, sort_keys=True): ASCII only, and floats in the
// shortest form that reads back equal. There is no newline at the end. Requires: indent >= 1, no binary
// values, no NaN or infinity.
std::string python_json(const nlohmann::json& value, int indent);

// Formats a float as Python's repr: the shortest digits that read back equal, exponent form below 1e-4 and
// from 1e16 on, always with a point or an exponent. Requires: the value is finite.
std::string python_float(double value);

}  // namespace plimsoll
