#include "target/gpu_constant.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kFurthestApart = 48 * kMiB;

}  // namespace

using Json = nlohmann::ordered_json;

int64_t gpu_constant_bytes(std::span<const int64_t> beside_arenas) {
  if (beside_arenas.empty()) throw_error(ErrorCode::kUsage, "no run told what it held beside its arena");
  const auto [least, most] = std::ranges::minmax(beside_arenas);
  if (least <= 0 || most - least > kFurthestApart) {
    throw_error(ErrorCode::kUsage,
                "runs held {} to {} MiB beside their arenas: others took or gave back memory of the card "
                "meanwhile; measure again when nobody else uses it",
                least / kMiB, most / kMiB);
  }
  return most + kOtherShapesBytes;
}

std::string gpu_constant_words(const MeasuredGpuConstant& constant) {
  return fmt::format("measured here on {}, {}, driver {}", constant.date, constant.card, constant.driver);
}

std::string gpu_constant_json(const MeasuredGpuConstant& constant) {
  const Json json{{"schema_version", kGpuConstantSchemaVersion},
                  {"card", constant.card},
                  {"driver", constant.driver},
                  {"build", constant.build},
                  {"date", constant.date},
                  {"bytes", constant.bytes}};
  return json.dump(1) + "\n";
}

MeasuredGpuConstant parse_gpu_constant(std::string_view text, const std::string& source) {
  try {
    const Json json = Json::parse(text.begin(), text.end());
    const int version = json.at("schema_version").get<int>();
    if (version != kGpuConstantSchemaVersion) {
      throw_error(ErrorCode::kBadData, "{}: a GPU's constant of schema version {}, this program reads {}",
                  source, version, kGpuConstantSchemaVersion);
    }
    MeasuredGpuConstant constant{.card = json.at("card").get<std::string>(),
                                 .driver = json.at("driver").get<std::string>(),
                                 .build = json.at("build").get<std::string>(),
                                 .date = json.at("date").get<std::string>(),
                                 .bytes = json.at("bytes").get<int64_t>()};
    if (constant.bytes <= 0)
      throw_error(ErrorCode::kBadData, "{}: a constant of {} bytes", source, constant.bytes);
    return constant;
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData, "{}: no constant of a GPU: {}", source, error.what());
  }
}

}  // namespace plimsoll
