// NVIDIA's management library: what a GPU holds and does, by whom. Opened at run time: without a driver there
// are no GPUs, and nothing fails. Thread-safe after the first call; the library stays open until the process
// ends.
//
// Memory is counted as nvidia-smi prints it (version 2 of the call): what processes hold, without the
// driver's own reserve.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct GpuMemory {
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;
  int64_t free_bytes = 0;
  int64_t reserved_bytes = 0;  // by the driver
};

struct GpuProcess {
  int64_t pid = 0;
  int64_t used_bytes = 0;  // 0 where the driver does not say
  std::string name = {};
};

// Whether the library could be opened; `why_not`, where given, then says the reason.
bool has_nvml(std::string* why_not = nullptr);

// Memory of the GPU with this UUID ("GPU-..."), now. Nothing where NVML is missing or does not know it.
std::optional<GpuMemory> gpu_memory(const std::string& uuid);
// The processes that compute on it.
std::vector<GpuProcess> gpu_processes(const std::string& uuid);

}  // namespace plimsoll
