#include "io/text/json_fields.h"

#include <limits>

#include "base/check.h"
#include "base/json.h"

namespace plimsoll::text {

Json parse_json(const std::string& text, const std::string& where) {
  if (is_nested_deeper(text, kMaxTokenizerJsonDepth)) {
    throw_error(ErrorCode::kBadData,
                "{} is not valid JSON for a tokenizer: nested deeper than {} levels; copy the file again "
                "from its source",
                where, kMaxTokenizerJsonDepth);
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // The text is malformed or contains a number that no type can represent.
    throw_error(ErrorCode::kBadData, "{} is not valid JSON: {}; copy the file again from its source", where,
                error.what());
  }
}

JsonFields::JsonFields(const Json& value, std::string where, std::string path)
    : object_(value), where_(std::move(where)), path_(std::move(path)) {
  if (!object_.is_object()) {
    throw_error(
        ErrorCode::kBadData,
        "{}: {} should be an object but is of type {}; compare it with a file of the same model family",
        where_, path_.empty() ? "the document" : path_, object_.type_name());
  }
}

std::string JsonFields::name_of(const std::string& key) const {
  return where_ + ": " + (path_.empty() ? key : path_ + "." + key);
}

void JsonFields::wrong_type(const std::string& key, const char* wanted, const Json& found) const {
  throw_error(ErrorCode::kBadData, "{} should be {} but is of type {}; correct the file or copy it again",
              name_of(key), wanted, found.type_name());
}

const Json* JsonFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> JsonFields::text(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong_type(key, "a string", *value);
  return value->get<std::string>();
}

std::optional<bool> JsonFields::flag(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> JsonFields::integer(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) wrong_type(key, "an integer", *value);
  if (value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw_error(ErrorCode::kBadData, "{} is {}, which is too large; correct the file or copy it again",
                name_of(key), value->get<uint64_t>());
  }
  return value->get<int64_t>();
}

std::optional<JsonFields> JsonFields::object(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return JsonFields(*value, where_, path_.empty() ? key : path_ + "." + key);
}

std::vector<JsonFields> JsonFields::required_objects(const std::string& key) const {
  const Json* list = array(key);
  if (list == nullptr) {
    throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source", name_of(key));
  }
  std::vector<JsonFields> result;
  for (size_t i = 0; i < list->size(); ++i) {
    result.emplace_back((*list)[i], where_,
                        fmt::format("{}{}[{}]", path_.empty() ? "" : path_ + ".", key, i));
  }
  return result;
}

const Json* JsonFields::array(const std::string& key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) wrong_type(key, "an array", *value);
  return value;
}

}  // namespace plimsoll::text
