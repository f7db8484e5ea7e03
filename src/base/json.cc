#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Writes a text in quotes with escapes for all characters outside ASCII. The JSON library escapes the same characters
// as Python and in the same way. Bytes that are not valid UTF-8 become U+FFFD.
std::string python_string(const std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) return '"' + text + '"';
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

void append_python(std::string& out, const Json& value, int indent, int depth) {
  const auto new_line = [&](int levels) {
    out.push_back('\n');
    out.append(static_cast<size_t>(indent) * static_cast<size_t>(levels), ' ');
  };
  if (value.is_object() && !value.empty()) {
    out.push_back('{');
    const char* separator = "";
    for (const auto& [key, member] : value.items()) {  // sorted, because the object is a std::map
      out.append(separator);
      new_line(depth + 1);
      out.append(python_string(key));
      out.append(": ");
      append_python(out, member, indent, depth + 1);
      separator = ",";
    }
    new_line(depth);
    out.push_back('}');
  } else if (value.is_array() && !value.empty()) {
    out.push_back('[');
    const char* separator = "";
    for (const Json& element : value) {
      out.append(separator);
      new_line(depth + 1);
      append_python(out, element, indent, depth + 1);
      separator = ",";
    }
    new_line(depth);
    out.push_back(']');
  } else if (value.is_string()) {
    out.append(python_string(value.get_ref<const std::string&>()));
  } else if (value.is_number_float()) {
    out.append(python_float(value.get<double>()));
  } else if (value.is_number_unsigned()) {
    out.append(std::to_string(value.get<uint64_t>()));
  } else if (value.is_number_integer()) {
    out.append(std::to_string(value.get<int64_t>()));
  } else {
    out.append(value.dump());
  }
}

}  // namespace

std::string python_float(double value) {
  PLIMSOLL_CHECK(std::isfinite(value), "JSON cannot contain a NaN or an infinity, but the number is {}",
                 value);
  char buffer[64];
  const double magnitude = std::fabs(value);
  const bool plain = value == 0.0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, result.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string python_json(const Json& value, int indent) {
  PLIMSOLL_CHECK(indent >= 1);
  std::string out;
  append_python(out, value, indent, 0);
  return out;
}

}  // namespace plimsoll
