#include "run/caches.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "device/cpu/cpu_features.h"
#include "device/monitor/host.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::string calibrated_cpu() {
  return fmt::format("{}, {}", cpu_name(), cpu_isa_name(cpu_isa()));
}

std::string calibration_path(const std::string& cpu, int num_threads, const Environment& environment) {
  const std::string folder = cache_folder("calibration", environment);
  if (folder.empty()) return {};
  return join_path(folder, fmt::format("{}-{}.json", to_hex(hash64(cpu)), num_threads));
}

CpuCalibration read_calibration(const std::string& word, int num_threads, const Environment& environment,
                                FileSystem& files, std::vector<std::string>& warnings) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (word == "off") return {};
  const std::string cpu = calibrated_cpu();
  const std::string path = word == "auto" ? calibration_path(cpu, num_threads, environment) : word;
  if (path.empty() || (word == "auto" && !is_in_cache(files, path))) return {};
  try {
    CpuCalibration calibration = parse_cpu_calibration(read_text_file(files, path, kMost), path);
    if (calibration.cpu == cpu && calibration.num_threads == num_threads) return calibration;
    warnings.push_back(fmt::format(
        "{}: the calibration was measured on {} with {} threads, but this run uses {} with {}; times are "
        "estimated without calibration (run plimsoll bench --calibrate on this machine)",
        path, calibration.cpu, calibration.num_threads, cpu, num_threads));
  } catch (const Error& error) {
    if (word != "auto") throw;
    warnings.push_back(std::string(error.what()) + "; times are estimated without calibration");
  }
  return {};
}

std::string cache_folder(const std::string& name, const Environment& environment) {
  const auto get = [&](const char* variable) {
    const auto it = environment.find(variable);
    return it == environment.end() ? std::string() : it->second;
  };
  if (const std::string cache = get("XDG_CACHE_HOME"); !cache.empty())
    return join_path(cache, "plimsoll/" + name);
  if (const std::string home = get("HOME"); !home.empty()) return join_path(home, ".cache/plimsoll/" + name);
  return {};
}

bool is_in_cache(FileSystem& files, const std::string& path) {
  try {
    return files.status(path).has_value();
  } catch (const Error&) {
    return false;
  }
}

void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what) {
  if (path.empty()) {
    throw_error(ErrorCode::kUsage,
                "the environment has neither HOME nor XDG_CACHE_HOME, so Plimsoll knows no folder in which "
                "to save {}; set HOME",
                what);
  }
  make_folders(files, parent_folder(path));
  replace_file(files, path, text);
}

}  // namespace plimsoll
