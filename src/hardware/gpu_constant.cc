#include "hardware/gpu_constant.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/units.h"
#include "hardware/measured_json.h"

namespace plimsoll {
namespace {

constexpr int64_t kFurthestApart = 48 * kMiB;

}  // namespace

using Json = nlohmann::ordered_json;

int64_t gpu_constant_bytes(std::span<const int64_t> beside_arenas) {
  if (beside_arenas.empty())
    throw_error(ErrorCode::kUsage,
                "none of the runs reported the GPU memory that it held outside its arena; remove the output "
                "folder and calibrate again");
  const auto [least, most] = std::ranges::minmax(beside_arenas);
  if (least <= 0 || most - least > kFurthestApart) {
    throw_error(
        ErrorCode::kUsage,
        "the runs held {} to {} MiB of GPU memory outside their arenas, which shows that other processes "
        "allocated or freed GPU memory in the meantime; measure again when no other process uses the GPU",
        least / kMiB, most / kMiB);
  }
  return most + kOtherShapesBytes;
}

std::string describe_gpu_constant(const MeasuredGpuConstant& constant) {
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
  const MeasuredJson json(text, source,
                          {.name = "constant of a GPU",
                           .schema_version = kGpuConstantSchemaVersion,
                           .remedy = "plimsoll bench --calibrate --device cuda:N writes one"});
  const auto word = [&](const char* name) { return json.get<std::string>(json.top(), name); };
  MeasuredGpuConstant constant{.card = word("card"),
                               .driver = word("driver"),
                               .build = word("build"),
                               .date = word("date"),
                               .bytes = json.get<int64_t>(json.top(), "bytes")};
  if (constant.bytes <= 0) json.fail(fmt::format("'bytes' must be positive, but is {}", constant.bytes));
  return constant;
}

}  // namespace plimsoll
