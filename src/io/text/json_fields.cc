#include "io/text/json_fields.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "base/json.h"

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
    // Once the integer `digits` is full, further digits are dropped. A dropped digit before the decimal point increases the
    // exponent.
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

// Builds a JSON document from the events of the parser. It replaces the parser's own builder, because it converts numbers by
// reference_value().
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double /*value*/, const std::string& text) override { return add(reference_value(text)); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool key(std::string& name) override {
    slot_ = &(*open_.back())[name];
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t /*position*/, const std::string& /*token*/, const Json::exception& error) override {
    error_ = error.what();
    return false;
  }

  Json& document() { return document_; }
  const std::string& error() const { return error_; }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json document_;
  std::vector<Json*> open_;  // the objects and arrays whose end has not been parsed yet, outermost first
  Json* slot_ = nullptr;     // the value that belongs to the key that was parsed last
  std::string error_;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& where) {
  if (is_nested_deeper(text, kMaxTokenizerJsonDepth)) {
    throw_error(ErrorCode::kBadData,
                "{} is not valid JSON for a tokenizer: nested deeper than {} levels; copy the file again "
                "from its source",
                where, kMaxTokenizerJsonDepth);
  }
  DocumentBuilder builder;
  if (!Json::sax_parse(text, &builder)) {
    // Parsing also fails if a number is too large for every numeric type.
    throw_error(ErrorCode::kBadData, "{} is not valid JSON: {}; copy the file again from its source", where,
                builder.error());
  }
  return std::move(builder.document());
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
