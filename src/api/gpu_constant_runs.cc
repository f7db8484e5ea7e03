// Computes the memory that a process holds on a GPU in addition to its arena, from runs that were alone on the card.
#include <fmt/chrono.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "device/monitor/nvml.h"
#include "hardware/gpu_constant.h"
#include "plimsoll/experiments.h"
#include "run/caches.h"

namespace plimsoll {
namespace {

// Returns "NVIDIA H200" for "cuda:0, NVIDIA H200".
std::string card_of(const std::string& device) {
  const size_t comma = device.find(", ");
  if (!device.starts_with("cuda:") || comma == std::string::npos)
    throw_error(ErrorCode::kUsage, "the runs were on {}, not on a GPU; give --device cuda:N", device);
  return device.substr(comma + 2);
}

}  // namespace

std::string keep_gpu_constant(const std::vector<std::string>& folders, const Environment& environment) {
  const auto today = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  MeasuredGpuConstant constant{.driver = Nvml::installed().driver_version(),
                               .build = program_build(),
                               .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(today))};
  std::vector<int64_t> beside_arenas;
  for (const std::string& folder : folders) {
    try {
      const nlohmann::json memory = read_json_object(join_path(folder, "memory.json"));
      beside_arenas.push_back(memory.at("measured_peak_bytes").get<int64_t>() -
                              memory.at("arena_bytes").get<int64_t>());
      constant.card = card_of(read_json_object(join_path(folder, "plan.json")).at("request").at("device"));
    } catch (const nlohmann::json::exception&) {
      throw_error(ErrorCode::kBadData,
                  "{}: memory.json or plan.json of the run lacks values that this version writes; remove the "
                  "folder and calibrate again",
                  folder);
    }
  }
  constant.bytes = gpu_constant_bytes(beside_arenas);
  std::string path = gpu_constant_path(constant.card, constant.driver, constant.build, environment);
  keep_in_cache(posix_file_system(), path, gpu_constant_json(constant),
                "the measured GPU memory outside the arena");
  return path;
}

}  // namespace plimsoll
