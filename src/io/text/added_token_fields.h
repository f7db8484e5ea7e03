// Reads the added tokens in JSON files.
#pragma once

#include <optional>
#include <string>

#include "io/text/json_fields.h"
#include "io/text/tokenizer.h"

namespace plimsoll::text {

// A token and its id, if the file states one.
struct StatedToken {
  AddedToken token;
  std::optional<int32_t> id;
};

// Reads an object with "content", the five properties, and possibly "id". Absent properties are false, except
// for "normalized", whose default is the opposite of "special", as in Hugging Face's AddedToken.
StatedToken read_added_token(const JsonFields& fields);

// Reads either a string, which means a special token matched in the raw text, or an object as above.
StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name);

// Converts an id. Errors: kBadData if not 0 <= id < 2^31 - 1.
int32_t checked_id(int64_t id, const std::string& name);

}  // namespace plimsoll::text
