// Parses JSON files into trees, with guards against hostile text. Thread-safe: pure functions, except for reading
// files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

// Deeper nesting is refused before a tree is built, which bounds the recursion over the tree.
inline constexpr int kMaxJsonDepth = 64;

// Returns true if the text opens more lists and objects at a time than `most`. It need not be JSON.
bool is_nested_deeper(std::string_view text, int most);

// Parses the text of a file. `where` names the file in messages. Errors: kBadData for text that is not JSON (the
// message gives the byte), for numbers beyond a double and for nesting beyond kMaxJsonDepth.
nlohmann::json parse_json(std::string_view text, std::string_view where);

// Reads the object in a file of at most 64 MiB. Errors: kBadData if the file does not contain a JSON object; those
// of read_text_file().
nlohmann::json read_json_object(const std::string& path);

}  // namespace plimsoll
