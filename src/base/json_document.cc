#include "base/json_document.h"

#include <cstdint>

#include "base/check.h"
#include "base/file.h"

namespace plimsoll {

bool is_nested_deeper(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      in_string = c == '"';
    }
  }
  return false;
}

nlohmann::json parse_json(std::string_view text, std::string_view where) {
  using Json = nlohmann::json;
  const auto guard = [&](int level, Json::parse_event_t, Json&) {
    if (level > kMaxJsonDepth) {
      throw_error(ErrorCode::kBadData, "{}: nested deeper than {} levels", where, kMaxJsonDepth);
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), guard);
  } catch (const Json::parse_error& error) {
    throw_error(ErrorCode::kBadData, "{}: not readable as JSON at byte {} ({}); download the file again",
                where, error.byte, error.what());
  } catch (const Json::out_of_range& error) {
    throw_error(ErrorCode::kBadData, "{}: a number is too large ({}); correct it or download the file again",
                where, error.what());
  }
}

nlohmann::json read_json_object(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  nlohmann::json json = parse_json(read_text_file(posix_file_system(), path, kMaxBytes), path);
  if (!json.is_object()) throw_error(ErrorCode::kBadData, "{}: not a JSON object", path);
  return json;
}

}  // namespace plimsoll
