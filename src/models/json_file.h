// JSON of a model's folder as this room reads it. Thread-safe: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace plimsoll {

// JSON nested deeper than this is refused before it is a tree, so that recursion over the tree is bounded.
inline constexpr int kMaxModelJsonDepth = 64;

// The value of a text from a file. `where` names the file in messages. Errors: kBadData for text that is no
// JSON (with the byte), for numbers beyond a double and for nesting beyond kMaxModelJsonDepth.
nlohmann::json parse_model_json(std::string_view text, std::string_view where);

}  // namespace plimsoll
