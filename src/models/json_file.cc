#include "models/json_file.h"

#include "base/check.h"

namespace plimsoll {

nlohmann::json parse_model_json(std::string_view text, std::string_view where) {
  using Json = nlohmann::json;
  const auto guard = [&](int level, Json::parse_event_t, Json&) {
    if (level > kMaxModelJsonDepth) {
      throw_error(ErrorCode::kBadData, "{}: nested deeper than {} levels", where, kMaxModelJsonDepth);
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

}  // namespace plimsoll
