#include "target/cpu_calibration.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace plimsoll {

using Json = nlohmann::ordered_json;

double CpuCalibration::factor(DType type, std::string_view op, std::string_view group) const {
  const auto of_type = factors.find(type);
  if (of_type == factors.end()) return 1;
  auto it = of_type->second.find(op);
  if (it == of_type->second.end()) it = of_type->second.find(group);
  return it == of_type->second.end() ? 1 : it->second;
}

std::string cpu_calibration_json(const CpuCalibration& calibration) {
  Json factors = Json::object();
  for (const auto& [type, of_type] : calibration.factors) factors[std::string(dtype_name(type))] = of_type;
  const Json json{{"schema_version", kCalibrationSchemaVersion},
                  {"cpu", calibration.cpu},
                  {"num_threads", calibration.num_threads},
                  {"factors", std::move(factors)}};
  return json.dump(1) + "\n";
}

CpuCalibration parse_cpu_calibration(std::string_view text, const std::string& source) {
  try {
    const Json json = Json::parse(text.begin(), text.end());
    const int version = json.at("schema_version").get<int>();
    if (version != kCalibrationSchemaVersion) {
      throw_error(ErrorCode::kBadData, "{}: a calibration of schema version {}, this program reads {}",
                  source, version, kCalibrationSchemaVersion);
    }
    CpuCalibration calibration{.cpu = json.at("cpu").get<std::string>(),
                               .num_threads = json.at("num_threads").get<int>()};
    for (const auto& [name, of_type] : json.at("factors").items()) {
      const std::optional<DType> type = parse_dtype(name);
      if (!type) throw_error(ErrorCode::kBadData, "{}: '{}' is no type", source, name);
      for (const auto& [op, value] : of_type.items()) {
        const double factor = value.get<double>();
        if (!(factor > 0) || !std::isfinite(factor)) {
          throw_error(ErrorCode::kBadData, "{}: the factor of {} in {} is {}; it has to be positive", source,
                      op, name, factor);
        }
        calibration.factors[*type][op] = factor;
      }
    }
    return calibration;
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData, "{}: no calibration: {}", source, error.what());
  }
}

}  // namespace plimsoll
