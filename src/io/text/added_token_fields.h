// Added tokens as the JSON files write them.
#pragma once

#include <optional>
#include <string>

#include "io/text/json_fields.h"
#include "io/text/tokenizer.h"

namespace plimsoll::text {

// A token and the id that the file states for it, if it does.
struct StatedToken {
  AddedToken token;
  std::optional<int32_t> id;
};

// An object with "content" and the five properties, and maybe "id". Absent properties are false, except
// "normalized", which is then the opposite of "special", as in Hugging Face's AddedToken.
StatedToken read_added_token(const JsonFields& fields);

// A string, which stands for a special token that is matched in the raw text, or an object as above.
StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name);

// Checked conversion of an id. Errors: kBadData unless 0 <= id < 2^31 - 1.
int32_t checked_id(int64_t id, const std::string& name);

}  // namespace plimsoll::text
