#include "hardware/cpu_target.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "hardware/measured_json.h"

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
  const MeasuredJson json(text, source,
                          {.name = "calibration",
                           .schema_version = kCalibrationSchemaVersion,
                           .remedy = "plimsoll bench --calibrate writes one"});
  CpuCalibration calibration{.cpu = json.get<std::string>(json.top(), "cpu"),
                             .num_threads = json.get<int>(json.top(), "num_threads")};
  const nlohmann::json& factors = json.object_at(json.top(), "factors");
  for (auto it = factors.begin(); it != factors.end(); ++it) {
    const std::string& name = it.key();
    const std::optional<DType> type = parse_dtype(name);
    if (!type)
      json.fail(fmt::format("'factors' has an entry '{}', which is not the name of a data type", name));
    const nlohmann::json& of_type = json.object_at(factors, name);
    for (auto entry = of_type.begin(); entry != of_type.end(); ++entry) {
      const std::string& op = entry.key();
      const auto factor = json.get<double>(of_type, op);
      if (!(factor > 0) || !std::isfinite(factor))
        json.fail(
            fmt::format("the factor of {} in {} must be a positive number, but is {}", op, name, factor));
      calibration.factors[*type][op] = factor;
    }
  }
  return calibration;
}

}  // namespace plimsoll
