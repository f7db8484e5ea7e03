#include "io/text/json_fields.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "base/guarded_json.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

namespace {

// Converts a number with a fraction or an exponent in the same way as serde_json, the JSON reader of Hugging Face's tokenizers:
// it multiplies the digits by a power of ten, so that the last bit can differ from that of the nearest double. In a Unigram model
// the last bit can decide which of two ways to split a word has the larger sum of scores.
double reference_value(std::string_view text) {
  constexpr int kMaxPower = 308;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool has_point = false, is_full = false;
  size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      has_point = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[i] - '0');
    is_full = is_full || digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (!is_full) digits = digits * 10 + digit;
    // `digits` is an integer of 64 bits. Once it is full, further digits are dropped; each dropped digit before the decimal point increases
    // the exponent.
    if (!is_full && has_point) --exponent;
    if (is_full && !has_point) ++exponent;
  }
  if (i < text.size()) {
    const bool negative_exponent = text.substr(i + 1).starts_with('-');
    int64_t stated = 0;
    for (const char c : text.substr(i + 1)) {
      if (c >= '0' && c <= '9') stated = std::min<int64_t>(stated * 10 + (c - '0'), 1000000);
    }
    exponent += negative_exponent ? -stated : stated;
  }
  auto value = static_cast<double>(digits);
  const auto power = [](int64_t n) { return std::strtod(("1e" + std::to_string(n)).c_str(), nullptr); };
  while (exponent < -kMaxPower && value != 0.0) {
    value /= 1e308;
    exponent += kMaxPower;
  }
  if (value != 0.0) value = exponent >= 0 ? value * power(exponent) : value / power(-exponent);
  return is_negative ? -value : value;
}

// Builds a tree of JSON values in which numbers with a fraction or an exponent have the values of reference_value().
class TokenizerTree : public JsonTree<Json> {
 public:
  bool number_float(double, const std::string& text) override { return put(reference_value(text)); }
};

}  // namespace

Json parse_tokenizer_text(const std::string& text, const std::string& where) {
  constexpr JsonRules kRules{.max_depth = kMaxTokenizerJsonDepth, .max_bytes = kMaxTokenizerFileBytes};
  TokenizerTree tree;
  if (const auto fault = read_json(text, kRules, tree)) refuse_json(text, where, *fault, kRules);
  return tree.take();
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

std::string JsonFields::required_text(const std::string& key) const {
  const auto value = text(key);
  if (!value)
    throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source", name_of(key));
  return *value;
}

bool JsonFields::flag_or(const std::string& key, bool fallback) const {
  return find(key) == nullptr ? fallback : *flag(key);
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
