// Reading what runs of this program left. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/file.h"

namespace plimsoll {

// The object in a file of at most 64 MiB. Errors: kBadData where it holds no JSON object; those of
// read_text_file().
inline nlohmann::json read_json_object(const std::string& path) {
  constexpr int64_t kMost = int64_t{64} << 20;
  auto json = nlohmann::json::parse(read_text_file(posix_file_system(), path, kMost), nullptr, false);
  if (!json.is_object()) throw_error(ErrorCode::kBadData, "{}: not a JSON object", path);
  return json;
}

}  // namespace plimsoll
