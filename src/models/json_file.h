// Parses the JSON files of a model's folder. Thread-safe: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace plimsoll {

// Deeper nesting is refused before a tree is built, which bounds the recursion over the tree.
inline constexpr int kMaxModelJsonDepth = 64;

// Parses the text of a file. `where` names the file in messages. Errors: kBadData for text that is not JSON (the
// message gives the byte), for numbers beyond a double and for nesting beyond kMaxModelJsonDepth.
nlohmann::json parse_model_json(std::string_view text, std::string_view where);

}  // namespace plimsoll
