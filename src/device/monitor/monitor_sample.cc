#include "device/monitor/monitor_sample.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

namespace plimsoll {

HostSample sample_host(const std::string& isa, const SystemPaths& paths) {
  HostSample host{.cpu = cpu_name(paths),
                  .num_threads = static_cast<int>(std::thread::hardware_concurrency()),
                  .isa = isa,
                  .memory = machine_memory(paths)};
  std::ifstream file(paths.proc + "/loadavg");
  if (double load = 0; file >> load) host.load = load;
  return host;
}

GpuSum sum_of(const std::vector<GpuSample>& gpus) {
  GpuSum sum;
  int num_percents = 0;
  for (const GpuSample& gpu : gpus) {
    if (gpu.memory) {
      sum.memory.total_bytes += gpu.memory->total_bytes;
      sum.memory.used_bytes += gpu.memory->used_bytes;
      sum.memory.free_bytes += gpu.memory->free_bytes;
      sum.memory.reserved_bytes += gpu.memory->reserved_bytes;
    }
    sum.power_w += gpu.power.watts.value_or(0);
    if (!gpu.gpu_percent) continue;
    sum.mean_gpu_percent += *gpu.gpu_percent;
    ++num_percents;
  }
  if (num_percents > 0) sum.mean_gpu_percent /= num_percents;
  return sum;
}

std::string cuda_version_text(std::optional<int> version) {
  if (!version) return {};
  return fmt::format("{}.{}", *version / 1000, *version % 1000 / 10);
}

std::string no_gpu_sentence(const MonitorSample& sample) {
  return fmt::format("No GPU to show{}: {}; the figures are those of the host.",
                     sample.with_context ? ", and none whose CUDA context --context could measure" : "",
                     sample.why_no_gpu);
}

}  // namespace plimsoll
