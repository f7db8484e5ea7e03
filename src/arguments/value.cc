#include "arguments/value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

const Arguments& default_arguments() {
  static const Arguments defaults;
  return defaults;
}

[[noreturn]] void fail_type(std::string_view where, std::string_view expected, std::string_view found) {
  throw_error(ErrorCode::kUsage, "{}: expected {}, got {}", where, expected, found);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

bool means_unset(std::string_view text) {
  const std::string word = lower(text);
  return word == "none" || word == "null" || word.empty();
}

template <typename T>
std::optional<T> number_from_text(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

struct ByteSuffix {
  std::string_view name;
  double factor;
};
// The suffixes of sizes in bytes. A suffix of one letter means a power of two (k is 1024), as in other tools that accept a memory limit.
constexpr double kKi = 1024.0;
constexpr std::array<ByteSuffix, 14> kByteSuffixes = {{{"", 1},
                                                       {"b", 1},
                                                       {"k", kKi},
                                                       {"kib", kKi},
                                                       {"kb", 1e3},
                                                       {"m", kKi* kKi},
                                                       {"mib", kKi* kKi},
                                                       {"mb", 1e6},
                                                       {"g", kKi* kKi* kKi},
                                                       {"gib", kKi* kKi* kKi},
                                                       {"gb", 1e9},
                                                       {"t", kKi* kKi* kKi* kKi},
                                                       {"tib", kKi* kKi* kKi* kKi},
                                                       {"tb", 1e12}}};

std::optional<int64_t> bytes_from_text(std::string_view text) {
  if (const auto plain = number_from_text<int64_t>(text)) return plain;
  const size_t letters = std::min(text.find_first_not_of("0123456789.+"), text.size());
  const std::string suffix = lower(trimmed(text.substr(letters)));
  const auto found = std::ranges::find(kByteSuffixes, std::string_view(suffix), &ByteSuffix::name);
  const auto count = number_from_text<double>(trimmed(text.substr(0, letters)));
  if (found == kByteSuffixes.end() || !count) return std::nullopt;
  const double bytes = std::floor(*count * found->factor);
  // The comparison uses 2^63, which a double represents exactly, unlike the largest int64_t.
  if (!(bytes < 9223372036854775808.0)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

// The smallest size that needs no unit. Smaller sizes need one, because a user who writes "--memory_limit 16" probably does not mean
// 16 bytes.
constexpr int64_t kLeastWithoutUnit = int64_t{1} << 20;

// Returns true if this number of bytes must have been written with a unit, because it is above 0 and below 1 MiB.
bool needs_unit(const Setting& setting, double bytes) {
  return setting.info.unit == "bytes" && bytes > 0 && bytes < kLeastWithoutUnit;
}

// Throws if a small or fractional size has no unit. `text` is the size as the user wrote it.
void require_unit(double count, std::string_view text, std::string_view where) {
  const bool is_whole = std::floor(count) == count;
  if (count <= 0 || (count >= kLeastWithoutUnit && is_whole)) return;
  throw_error(ErrorCode::kUsage, "{}: {} has no unit and would be {} bytes; write {}GiB, {}MiB or {:.0f}B",
              where, text, count, count, count, std::ceil(count));
}

// Splits a text at commas. Blanks around the parts are ignored, and empty parts are dropped.
StringList list_from_text(std::string_view text) {
  StringList words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (const std::string_view word = trimmed(text.substr(0, end)); !word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

KeyValues pairs_from_json(const Json& object, std::string_view where) {
  KeyValues pairs;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) {
      pairs[key] = value.get<std::string>();
    } else if (value.is_primitive() && !value.is_null()) {
      pairs[key] = value.dump();
    } else if (!value.is_null()) {
      fail_type(fmt::format("{}.{}", where, key), "a number, a flag or a text", describe_json(value));
    }
  }
  return pairs;
}

KeyValues pairs_from_text(std::string_view text, std::string_view where) {
  text = trimmed(text);
  if (text.starts_with('{')) {
    const Json object = find_json<Json>(text);
    if (!object.is_object()) fail_type(where, "a JSON object or key=value,key=value", in_quotes(text));
    return pairs_from_json(object, where);
  }
  KeyValues pairs;
  for (const std::string& word : list_from_text(text)) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) fail_type(where, "key=value,key=value", in_quotes(word));
    pairs[std::string(trimmed(std::string_view(word).substr(0, equals)))] =
        trimmed(std::string_view(word).substr(equals + 1));
  }
  return pairs;
}

// Parses a choice. A setting with the choice "no" or "all" also accepts False or True, because YAML converts an
// unquoted `no` to false.
std::string choice_from_text(const Setting& setting, std::string_view text) {
  const auto choices = split_choices(setting.info.range);
  const auto is_choice = [&](std::string_view word) {
    return std::ranges::find(choices, word) != choices.end();
  };
  if (is_choice(text)) return std::string(text);
  // Names of tasks may be in upper case, as in run_glue.
  if (std::string word = lower(text); setting.info.name == "task_name" && is_choice(word)) return word;
  if (const auto flag = bool_from_text(text)) {
    const std::string_view word = *flag ? "all" : "no";
    if (is_choice(word)) return std::string(word);
  }
  return std::string(text);
}

void from_text(bool& value, const Setting&, std::string_view text, std::string_view where) {
  const auto flag = bool_from_text(text);
  if (!flag) fail_type(where, "True or False", in_quotes(text));
  value = *flag;
}

void from_text(int64_t& value, const Setting& setting, std::string_view text, std::string_view where) {
  const bool is_bytes = setting.info.unit == "bytes";
  const auto number = is_bytes ? bytes_from_text(text) : number_from_text<int64_t>(text);
  if (!number)
    fail_type(where, is_bytes ? "a size such as 2GiB, 500MB or 1048576" : "an integer", in_quotes(text));
  if (const auto count = is_bytes ? number_from_text<double>(text) : std::nullopt)
    require_unit(*count, text, where);
  value = *number;
}

void from_text(double& value, const Setting&, std::string_view text, std::string_view where) {
  const auto number = number_from_text<double>(text);
  if (!number) fail_type(where, "a number", in_quotes(text));
  value = *number;
}

void from_text(std::string& value, const Setting& setting, std::string_view text, std::string_view where) {
  if (text.find('\0') != std::string_view::npos) fail_type(where, "a text", "a text with a NUL byte");
  value = choice_from_text(setting, text);
  if (setting.info.unit == "flag") {
    const auto choices = split_choices(setting.info.range);
    if (const auto flag = bool_from_text(text))
      value = choices.empty() ? (*flag ? "True" : "False") : std::string(*flag ? choices.front() : "");
  }
  // A setting that this version does not support accepts only its default, such as LORA, in upper or lower case.
  if (setting.info.status != ArgumentStatus::kRefused) return;
  const std::string& only = default_arguments().*std::get<std::string Arguments::*>(setting.member);
  if (lower(value) == lower(only)) value = only;
}

void from_text(StringList& value, const Setting&, std::string_view text, std::string_view) {
  value = list_from_text(text);
}

void from_text(KeyValues& value, const Setting&, std::string_view text, std::string_view where) {
  value = pairs_from_text(text, where);
}

template <typename T>
void from_text(std::optional<T>& value, const Setting& setting, std::string_view text,
               std::string_view where) {
  if (means_unset(text)) {
    value.reset();
    return;
  }
  from_text(value.emplace(), setting, text, where);
}

void from_json(bool& value, const Setting&, const Json& json, std::string_view where) {
  if (!json.is_boolean()) fail_type(where, "true or false", describe_json(json));
  value = json.get<bool>();
}

void from_json(int64_t& value, const Setting& setting, const Json& json, std::string_view where) {
  if (json.is_string() && setting.info.unit == "bytes") {
    from_text(value, setting, json.get_ref<const std::string&>(), where);
    return;
  }
  if (json.is_number() && setting.info.unit == "bytes") require_unit(json.get<double>(), json.dump(), where);
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() ||
                     json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) fail_type(where, "an integer", describe_json(json));
  value = json.get<int64_t>();
}

void from_json(double& value, const Setting&, const Json& json, std::string_view where) {
  if (!json.is_number()) fail_type(where, "a number", describe_json(json));
  value = json.get<double>();
}

void from_json(std::string& value, const Setting& setting, const Json& json, std::string_view where) {
  if (json.is_string()) {
    from_text(value, setting, json.get_ref<const std::string&>(), where);
  } else if (setting.info.unit == "json" && (json.is_structured() || json.is_boolean())) {
    const bool is_empty = json.is_boolean() ? !json.get<bool>() : json.empty();
    value = is_empty ? std::string{} : json.dump();
  } else if (json.is_boolean() && (setting.info.unit == "flag" || !setting.info.range.empty())) {
    from_text(value, setting, json.get<bool>() ? "True" : "False", where);
  } else {
    fail_type(where, "a text", describe_json(json));
  }
}

void from_json(StringList& value, const Setting& setting, const Json& json, std::string_view where) {
  if (json.is_string()) {
    value = list_from_text(json.get_ref<const std::string&>());
    return;
  }
  // PEFT's files contain the indices of layers, or a single index, as JSON numbers.
  const auto is_layer = [&](const Json& word) {
    return setting.info.unit == "layers" && word.is_number_unsigned();
  };
  if (is_layer(json)) {
    value = {json.dump()};
    return;
  }
  if (!json.is_array()) fail_type(where, "a list of texts", describe_json(json));
  StringList words;
  for (const Json& word : json) {
    if (!word.is_string() && !is_layer(word))
      fail_type(where, "a list of texts", "a list with " + describe_json(word));
    words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  }
  value = std::move(words);
}

void from_json(KeyValues& value, const Setting&, const Json& json, std::string_view where) {
  if (json.is_string()) {
    value = pairs_from_text(json.get_ref<const std::string&>(), where);
  } else if (json.is_object()) {
    value = pairs_from_json(json, where);
  } else {
    fail_type(where, "an object or key=value,key=value", describe_json(json));
  }
}

template <typename T>
void from_json(std::optional<T>& value, const Setting& setting, const Json& json, std::string_view where) {
  from_json(value.emplace(), setting, json, where);
}

std::string to_text(bool value) {
  return value ? "True" : "False";
}
std::string to_text(int64_t value) {
  return fmt::format("{}", value);
}
std::string to_text(double value) {
  return fmt::format("{}", value);
}
std::string to_text(const std::string& value) {
  return value;
}
std::string to_text(const StringList& value) {
  return fmt::format("{}", fmt::join(value, ","));
}
std::string to_text(const KeyValues& value) {
  std::string text;
  for (const auto& [key, word] : value) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, word);
  return text;
}
template <typename T>
std::string to_text(const std::optional<T>& value) {
  return value ? to_text(*value) : std::string{};
}

template <typename T>
Json to_json(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? to_json(*value) : Json(nullptr);
  } else if constexpr (std::is_same_v<T, KeyValues>) {
    Json object = Json::object();
    for (const auto& [key, word] : value) {
      // A text that is a number in the form in which JSON writes it becomes a JSON number; any other text stays a text.
      const Json number = find_json<Json>(word);
      object[key] = number.is_number() && number.dump() == word ? number : Json(word);
    }
    return object;
  } else {
    return Json(value);
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  size_t end = std::min(kShown, text.size());
  while (end > 0 && end < text.size() && is_utf8_continuation(text[end])) --end;
  if (end < text.size()) return fmt::format("'{}...'", text.substr(0, end));
  return fmt::format("'{}'", text);
}

std::string describe_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "the flag true" : "the flag false";
    case Json::value_t::string:
      return "the text " + in_quotes(value.get_ref<const std::string&>());
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    default:
      return "the number " + value.dump();
  }
}

std::optional<bool> bool_from_text(std::string_view text) {
  const std::string word = lower(text);
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off", "f", "n"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

void set_from_text(Arguments& arguments, const Setting& setting, std::string_view text,
                   std::string_view where) {
  std::visit([&](auto member) { from_text(arguments.*member, setting, text, where); }, setting.member);
  check_range(arguments, setting, where);
}

void set_from_json(Arguments& arguments, const Setting& setting, const Json& value, std::string_view where) {
  if (value.is_null()) {
    assign(arguments, default_arguments(), setting);
    return;
  }
  std::visit([&](auto member) { from_json(arguments.*member, setting, value, where); }, setting.member);
  check_range(arguments, setting, where);
}

std::string format_value(const Arguments& arguments, const Setting& setting) {
  const std::string text =
      std::visit([&](auto member) { return to_text(arguments.*member); }, setting.member);
  const auto bytes = number_from_text<double>(text);
  return bytes && needs_unit(setting, *bytes) ? text + "B" : text;
}

Json value_json(const Arguments& arguments, const Setting& setting) {
  Json value = std::visit([&](auto member) { return to_json(arguments.*member); }, setting.member);
  if (value.is_number() && needs_unit(setting, value.get<double>())) return value.dump() + "B";
  return value;
}

bool is_default(const Arguments& arguments, const Setting& setting) {
  return std::visit([&](auto member) { return arguments.*member == default_arguments().*member; },
                    setting.member);
}

void assign(Arguments& to, const Arguments& from, const Setting& setting) {
  std::visit([&](auto member) { to.*member = from.*member; }, setting.member);
}

}  // namespace plimsoll
