// Computes factors that correct estimates of time on this CPU, from runs that timed every op.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "hardware/cpu_target.h"
#include "plimsoll/experiments.h"
#include "run/caches.h"

namespace plimsoll {
namespace {

// The measured and the estimated time of all ops of one kind, in milliseconds.
using Times = std::pair<double, double>;

void add_run(const std::string& folder, CpuCalibration& calibration) {
  const nlohmann::json request = read_json_object(join_path(folder, "plan.json")).at("request");
  const nlohmann::json profile = read_json_object(join_path(folder, "profile.json"));
  calibration.num_threads = request.at("num_threads").get<int>();
  const std::optional<DType> type = parse_dtype(request.at("activation_dtype").get<std::string>());
  if (!type)
    throw_error(ErrorCode::kBadData,
                "{}: plan.json has an unknown type of activations; remove the folder and calibrate again",
                folder);
  std::map<std::string, Times> sums;
  for (const nlohmann::json& op : profile.at("ops")) {
    for (const char* name : {"op", "group"}) {
      Times& times = sums[op.at(name).get<std::string>()];
      times.first += op.at("ms").get<double>();
      times.second += op.at("estimated_ms").get<double>();
    }
  }
  for (const auto& [name, times] : sums) {
    if (times.first > 0 && times.second > 0) calibration.factors[*type][name] = times.first / times.second;
  }
}

}  // namespace

std::string calibration_json(const std::vector<std::string>& folders) {
  CpuCalibration calibration{.cpu = calibrated_cpu()};
  for (const std::string& folder : folders) {
    try {
      add_run(folder, calibration);
    } catch (const nlohmann::json::exception&) {
      throw_error(ErrorCode::kBadData,
                  "{}: plan.json or profile.json of the run lacks values that this version writes; remove "
                  "the folder and calibrate again",
                  folder);
    }
  }
  return cpu_calibration_json(calibration);
}

std::string keep_calibration(const std::string& json, const Environment& environment) {
  const CpuCalibration calibration = parse_cpu_calibration(json, "the calibration");
  std::string path = calibration_path(calibration.cpu, calibration.num_threads, environment);
  keep_in_cache(posix_file_system(), path, json,
                "the calibration (--calibration FILE reads one from any path)");
  return path;
}

}  // namespace plimsoll
