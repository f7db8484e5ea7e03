#include "io/text/added_token_fields.h"

#include <limits>

#include "base/check.h"

namespace plimsoll::text {

int32_t checked_id(int64_t id, const std::string& name) {
  if (id < 0 || id >= std::numeric_limits<int32_t>::max()) {
    throw_error(ErrorCode::kBadData, "{}: id {} is outside 0 to {}; correct the file or copy it again", name,
                id, std::numeric_limits<int32_t>::max() - 1);
  }
  return static_cast<int32_t>(id);
}

StatedToken read_added_token(const JsonFields& fields) {
  StatedToken result;
  AddedToken& token = result.token;
  const auto content = fields.text("content");
  if (!content) {
    throw_error(ErrorCode::kBadData,
                "{} is missing: an added token needs its text; correct the file or copy it again",
                fields.name_of("content"));
  }
  token.content = *content;
  token.special = fields.flag("special").value_or(false);
  token.single_word = fields.flag("single_word").value_or(false);
  token.lstrip = fields.flag("lstrip").value_or(false);
  token.rstrip = fields.flag("rstrip").value_or(false);
  token.normalized = fields.flag("normalized").value_or(!token.special);
  if (const auto id = fields.integer("id")) result.id = checked_id(*id, fields.name_of("id"));
  return result;
}

StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name) {
  StatedToken result;
  if (value.is_string()) {
    result.token.content = value.get<std::string>();
    result.token.special = true;
    return result;
  }
  result = read_added_token(JsonFields(value, where, name));
  result.token.special = true;
  return result;
}

}  // namespace plimsoll::text
