#include "show/monitor/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

// The library's interface, as NVIDIA documents it in "NVML API Reference": its header is not on every machine
// that builds this program.
using Device = struct NvmlDevice*;
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
};
constexpr unsigned int kMemoryVersion = static_cast<unsigned int>(sizeof(MemoryV2)) | (2u << 24);
constexpr int kSuccess = 0;

struct Library {
  int (*device_by_uuid)(const char*, Device*) = nullptr;
  int (*memory)(Device, MemoryV2*) = nullptr;
  int (*processes)(Device, unsigned int*, ProcessInfo*) = nullptr;
  std::string why_not;
  bool is_open = false;
};

Library open_library() {
  Library nvml;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    nvml.why_not = "there is no NVIDIA driver here (libnvidia-ml.so.1 is missing)";
    return nvml;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  int (*init)() = nullptr;
  if (!find(init, "nvmlInit_v2") || !find(nvml.device_by_uuid, "nvmlDeviceGetHandleByUUID") ||
      !find(nvml.memory, "nvmlDeviceGetMemoryInfo_v2") ||
      !find(nvml.processes, "nvmlDeviceGetComputeRunningProcesses_v3")) {
    nvml.why_not = "the NVIDIA driver is too old: its management library lacks functions of 2021";
    return nvml;
  }
  const int status = init();
  if (status != kSuccess) {
    nvml.why_not = "NVIDIA's management library does not start: error " + std::to_string(status);
    return nvml;
  }
  nvml.is_open = true;
  return nvml;
}

const Library& library() {
  static const Library nvml = open_library();
  return nvml;
}

std::optional<Device> find_device(const std::string& uuid) {
  Device device = nullptr;
  if (!library().is_open || library().device_by_uuid(uuid.c_str(), &device) != kSuccess) return std::nullopt;
  return device;
}

std::string name_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

bool has_nvml(std::string* why_not) {
  if (!library().is_open && why_not != nullptr) *why_not = library().why_not;
  return library().is_open;
}

std::optional<GpuMemory> gpu_memory(const std::string& uuid) {
  const auto device = find_device(uuid);
  if (!device) return std::nullopt;
  MemoryV2 memory{};
  memory.version = kMemoryVersion;
  if (library().memory(*device, &memory) != kSuccess) return std::nullopt;
  return GpuMemory{.total_bytes = static_cast<int64_t>(memory.total),
                   .used_bytes = static_cast<int64_t>(memory.used),
                   .free_bytes = static_cast<int64_t>(memory.free),
                   .reserved_bytes = static_cast<int64_t>(memory.reserved)};
}

std::vector<GpuProcess> gpu_processes(const std::string& uuid) {
  const auto device = find_device(uuid);
  if (!device) return {};
  std::array<ProcessInfo, 128> list{};
  auto count = static_cast<unsigned int>(list.size());
  if (library().processes(*device, &count, list.data()) != kSuccess) return {};
  std::vector<GpuProcess> processes;
  for (unsigned int i = 0; i < count; ++i) {
    constexpr auto kNotKnown = ~0ull;
    processes.push_back({.pid = list[i].pid,
                         .used_bytes = list[i].used == kNotKnown ? 0 : static_cast<int64_t>(list[i].used),
                         .name = name_of(list[i].pid)});
  }
  return processes;
}

}  // namespace plimsoll
