#include "run/caches.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::string program_build() {
  const std::filesystem::path program = "/proc/self/exe";
  std::error_code error;
  const auto bytes = std::filesystem::file_size(program, error);
  if (error) return {};
  const auto written = std::filesystem::last_write_time(program, error);
  if (error) return {};
  return to_hex(hash64(fmt::format("{} {}", bytes, written.time_since_epoch().count())));
}

std::string gpu_constant_path(const std::string& card, const std::string& driver, const std::string& build,
                              const Environment& environment) {
  const std::string folder = cache_folder("constants", environment);
  if (folder.empty()) return {};
  return join_path(folder, to_hex(hash64(card + "\n" + driver + "\n" + build)) + ".json");
}

void take_gpu_constant(const std::string& card, const std::string& driver, const std::string& build,
                       const Environment& environment, FileSystem& files, GpuTarget& gpu,
                       std::vector<std::string>& warnings) {
  constexpr int64_t kMost = int64_t{1} << 16;
  const std::string path = gpu_constant_path(card, driver, build, environment);
  if (path.empty() || !is_in_cache(files, path)) return;
  try {
    const MeasuredGpuConstant constant = parse_gpu_constant(read_text_file(files, path, kMost), path);
    if (constant.card != card || constant.driver != driver || constant.build != build) return;
    gpu.constant_bytes = constant.bytes;
    gpu.constant_provenance = describe_gpu_constant(constant);
  } catch (const Error& error) {
    warnings.push_back(std::string(error.what()) +
                       "; the GPU memory outside the arena is taken from the built-in table");
  }
}

}  // namespace plimsoll
