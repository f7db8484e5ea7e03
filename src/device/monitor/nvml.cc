#include "device/monitor/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <type_traits>

#include "base/opened_library.h"
#include "device/monitor/nvml_interface.h"

namespace plimsoll {

using namespace nvml;

// Pointers to the functions of NVML. A pointer is null if the driver does not have the function. Only the functions before the
// first empty line are required.
struct Nvml::Functions {
  int (*init)() = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*device_by_index)(unsigned int, Device*) = nullptr;
  int (*device_by_uuid)(const char*, Device*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*compute_processes)(Device, unsigned int*, ProcessInfo*) = nullptr;

  int (*graphics_processes)(Device, unsigned int*, ProcessInfo*) = nullptr;
  int (*driver_version)(char*, unsigned int) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*name)(Device, char*, unsigned int) = nullptr;
  int (*uuid)(Device, char*, unsigned int) = nullptr;
  int (*compute_capability)(Device, int*, int*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*clock)(Device, unsigned int, unsigned int*) = nullptr;
  int (*max_clock)(Device, unsigned int, unsigned int*) = nullptr;
  int (*power)(Device, unsigned int*) = nullptr;
  int (*power_limit)(Device, unsigned int*) = nullptr;
  int (*temperature)(Device, unsigned int, unsigned int*) = nullptr;
  int (*threshold)(Device, unsigned int, unsigned int*) = nullptr;
  int (*margin)(Device, MarginTemperature*) = nullptr;
  int (*fan)(Device, unsigned int*) = nullptr;
  int (*clock_events)(Device, unsigned long long*) = nullptr;
  int (*ecc)(Device, unsigned int, unsigned int, unsigned long long*) = nullptr;
  int (*pcie_generation)(Device, unsigned int*) = nullptr;
  int (*max_pcie_generation)(Device, unsigned int*) = nullptr;
  int (*pcie_width)(Device, unsigned int*) = nullptr;
  int (*max_pcie_width)(Device, unsigned int*) = nullptr;
  int (*nvlink_state)(Device, unsigned int, unsigned int*) = nullptr;

  bool find_required(void* library);
  void find_others(void* library);
  std::optional<Device> find_device(const std::string& uuid_text) const;
  int list_processes(Device device, decltype(compute_processes) list, std::vector<GpuProcess>& found) const;
  void read_identity(Device device, GpuSample& sample) const;
  void read_load(Device device, GpuSample& sample) const;
  void read_limits(Device device, GpuSample& sample) const;
  void read_links(Device device, GpuSample& sample) const;
  void read_processes(Device device, GpuSample& sample) const;
};

std::string describe_nvml_status(int status) {
  switch (status) {
    case kNoPermission:
      return "no permission";
    case kInsufficientPower:
      return "a power cable of the card is not connected";
    case kDriverNotLoaded:
      return "the NVIDIA driver is not loaded";
    case kTimeout:
      return "the driver does not answer";
    case kGpuIsLost:
      return "the GPU is lost: it fell off the bus; restart the machine, then check its power and its slot";
    case kResetRequired:
      return "the GPU needs a reset before it can be used again";
    case kOperatingSystem:
      return "the operating system does not give access to the device";
    case kVersionMismatch:
      return "the driver's library and its kernel module are of different versions; restart the machine";
    default:
      return fmt::format("error {}", status);
  }
}

namespace {

// Returns true for a status of NVML that means that the card or the driver does not provide the value. Other failures are
// reported to the user.
bool means_absent(int status) {
  return status == kNotSupported || status == kInvalidArgument || status == kNotFound ||
         status == kFunctionNotFound || status == kNoData || status == kArgumentVersionMismatch ||
         status == kDeprecated;
}

// Returns true if the status means success. If the driver has the value `what` but refuses to
// report it, adds its name and the reason to the sample.
bool is_given(int status, const char* what, GpuSample& sample) {
  if (status == kSuccess) return true;
  if (status == kGpuIsLost || status == kResetRequired) {
    sample.fault = describe_nvml_status(status);
  } else if (!means_absent(status)) {
    sample.refused.push_back(fmt::format("{} ({})", what, describe_nvml_status(status)));
  }
  return false;
}

// Reads a value. NVML returns unsigned integers, and none of the values that are read here exceeds an int.
template <typename Value, typename Function, typename... Words>
std::optional<Value> read(const char* what, GpuSample& sample, Function* function, Device device,
                          Words... words) {
  using Raw = std::conditional_t<sizeof(Value) == 8, unsigned long long, unsigned int>;
  if (function == nullptr) return std::nullopt;
  Raw value = 0;
  if (!is_given(function(device, words..., &value), what, sample)) return std::nullopt;
  return static_cast<Value>(value);
}

template <typename Function>
std::optional<double> read_watts(const char* what, GpuSample& sample, Function* function, Device device) {
  const auto milliwatts = read<int>(what, sample, function, device);
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1000.0;
}

std::string name_of(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

bool Nvml::Functions::find_required(void* library) {
  return find_library_function(library, "nvmlInit_v2", init) &&
         find_library_function(library, "nvmlDeviceGetCount_v2", count) &&
         find_library_function(library, "nvmlDeviceGetHandleByIndex_v2", device_by_index) &&
         find_library_function(library, "nvmlDeviceGetHandleByUUID", device_by_uuid) &&
         find_library_function(library, "nvmlDeviceGetMemoryInfo_v2", memory) &&
         find_library_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", compute_processes);
}

void Nvml::Functions::find_others(void* library) {
  find_library_function(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", graphics_processes);
  find_library_function(library, "nvmlSystemGetDriverVersion", driver_version);
  find_library_function(library, "nvmlSystemGetCudaDriverVersion_v2", cuda_version);
  find_library_function(library, "nvmlDeviceGetName", name);
  find_library_function(library, "nvmlDeviceGetUUID", uuid);
  find_library_function(library, "nvmlDeviceGetCudaComputeCapability", compute_capability);
  find_library_function(library, "nvmlDeviceGetUtilizationRates", utilization);
  find_library_function(library, "nvmlDeviceGetClockInfo", clock);
  find_library_function(library, "nvmlDeviceGetMaxClockInfo", max_clock);
  find_library_function(library, "nvmlDeviceGetPowerUsage", power);
  find_library_function(library, "nvmlDeviceGetEnforcedPowerLimit", power_limit);
  find_library_function(library, "nvmlDeviceGetTemperature", temperature);
  find_library_function(library, "nvmlDeviceGetTemperatureThreshold", threshold);
  find_library_function(library, "nvmlDeviceGetMarginTemperature", margin);
  find_library_function(library, "nvmlDeviceGetFanSpeed", fan);
  // Drivers since 2023 provide this function under the first name, older drivers only under the second name.
  if (!find_library_function(library, "nvmlDeviceGetCurrentClocksEventReasons", clock_events))
    find_library_function(library, "nvmlDeviceGetCurrentClocksThrottleReasons", clock_events);
  find_library_function(library, "nvmlDeviceGetTotalEccErrors", ecc);
  find_library_function(library, "nvmlDeviceGetCurrPcieLinkGeneration", pcie_generation);
  find_library_function(library, "nvmlDeviceGetMaxPcieLinkGeneration", max_pcie_generation);
  find_library_function(library, "nvmlDeviceGetCurrPcieLinkWidth", pcie_width);
  find_library_function(library, "nvmlDeviceGetMaxPcieLinkWidth", max_pcie_width);
  find_library_function(library, "nvmlDeviceGetNvLinkState", nvlink_state);
}

std::optional<Device> Nvml::Functions::find_device(const std::string& uuid_text) const {
  Device device = nullptr;
  if (device_by_uuid(uuid_text.c_str(), &device) != kSuccess) return std::nullopt;
  return device;
}

// Calls `list` and adds the processes that `found` does not contain yet, because a process that both computes and draws is in both of the
// driver's lists. Returns the status of the last call.
int Nvml::Functions::list_processes(Device device, decltype(compute_processes) list,
                                    std::vector<GpuProcess>& found) const {
  if (list == nullptr) return kFunctionNotFound;
  std::vector<ProcessInfo> infos(64);
  auto number = static_cast<unsigned int>(infos.size());
  int status = list(device, &number, infos.data());
  // The number of processes may grow between two calls, so twice the reported number is allocated.
  for (int attempt = 0; status == kInsufficientSize && attempt < 4; ++attempt) {
    infos.resize(2 * std::max<size_t>(number, infos.size()));
    number = static_cast<unsigned int>(infos.size());
    status = list(device, &number, infos.data());
  }
  if (status != kSuccess) return status;
  infos.resize(std::min<size_t>(number, infos.size()));
  for (const ProcessInfo& info : infos) {
    if (std::ranges::any_of(found, [&](const GpuProcess& other) { return other.pid == info.pid; })) continue;
    found.push_back({.pid = info.pid,
                     .used_bytes = info.used == kUsedNotKnown ? 0 : static_cast<int64_t>(info.used),
                     .name = name_of(info.pid)});
  }
  return status;
}

void Nvml::Functions::read_identity(Device device, GpuSample& sample) const {
  std::array<char, kTextBytes> text{};
  if (name != nullptr && is_given(name(device, text.data(), kTextBytes), "name", sample))
    sample.name = text.data();
  if (uuid != nullptr && is_given(uuid(device, text.data(), kTextBytes), "UUID", sample))
    sample.uuid = text.data();
  int major = 0, minor = 0;
  if (compute_capability != nullptr &&
      is_given(compute_capability(device, &major, &minor), "compute capability", sample)) {
    sample.sm = major * 10 + minor;
  }
}

void Nvml::Functions::read_load(Device device, GpuSample& sample) const {
  Memory figures{};
  figures.version = kMemoryVersion;
  if (is_given(memory(device, &figures), "memory", sample)) {
    sample.memory = GpuMemory{.total_bytes = static_cast<int64_t>(figures.total),
                              .used_bytes = static_cast<int64_t>(figures.used),
                              .free_bytes = static_cast<int64_t>(figures.free),
                              .reserved_bytes = static_cast<int64_t>(figures.reserved)};
  }
  Utilization rates{};
  if (utilization != nullptr && is_given(utilization(device, &rates), "utilisation", sample)) {
    sample.gpu_percent = static_cast<int>(rates.gpu);
    sample.memory_percent = static_cast<int>(rates.memory);
  }
  sample.clocks.sm_mhz = read<int>("clocks", sample, clock, device, kClockSm);
  sample.clocks.memory_mhz = read<int>("clocks", sample, clock, device, kClockMemory);
  sample.power.watts = read_watts("power", sample, power, device);
  sample.power.limit_w = read_watts("power limit", sample, power_limit, device);
  sample.thermals.celsius = read<int>("temperature", sample, temperature, device, kSensorGpu);
  sample.thermals.fan_percent = read<int>("fan", sample, fan, device);
  sample.clocks.events = read<uint64_t>("clock events", sample, clock_events, device);
}

void Nvml::Functions::read_limits(Device device, GpuSample& sample) const {
  sample.clocks.max_sm_mhz = read<int>("clocks", sample, max_clock, device, kClockSm);
  sample.clocks.max_memory_mhz = read<int>("clocks", sample, max_clock, device, kClockMemory);
  sample.thermals.slowdown_c =
      read<int>("slowdown temperature", sample, threshold, device, kThresholdSlowdown);
  MarginTemperature degrees{.version = kMarginVersion, .margin = 0};
  if (!sample.thermals.slowdown_c && margin != nullptr &&
      is_given(margin(device, &degrees), "slowdown temperature", sample)) {
    sample.thermals.slowdown_margin_c = degrees.margin;
  }
  sample.ecc.corrected = read<int64_t>("ECC errors", sample, ecc, device, kEccCorrected, kEccSinceLoad);
  sample.ecc.uncorrected = read<int64_t>("ECC errors", sample, ecc, device, kEccUncorrected, kEccSinceLoad);
}

void Nvml::Functions::read_links(Device device, GpuSample& sample) const {
  sample.pcie.generation = read<int>("PCIe link", sample, pcie_generation, device);
  sample.pcie.max_generation = read<int>("PCIe link", sample, max_pcie_generation, device);
  sample.pcie.width = read<int>("PCIe link", sample, pcie_width, device);
  sample.pcie.max_width = read<int>("PCIe link", sample, max_pcie_width, device);
  if (nvlink_state == nullptr) return;
  for (unsigned int link = 0; link < kMaxNvLinks; ++link) {
    unsigned int is_up = 0;
    if (!is_given(nvlink_state(device, link, &is_up), "NVLink", sample)) return;
    sample.nvlinks.all = sample.nvlinks.all.value_or(0) + 1;
    sample.nvlinks.up = sample.nvlinks.up.value_or(0) + (is_up == 1 ? 1 : 0);
  }
}

void Nvml::Functions::read_processes(Device device, GpuSample& sample) const {
  sample.has_processes =
      is_given(list_processes(device, compute_processes, sample.processes), "processes", sample);
  list_processes(device, graphics_processes, sample.processes);
  std::ranges::sort(sample.processes, {}, &GpuProcess::pid);
}

Nvml::Nvml(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    why_not_ = fmt::format("this machine has no NVIDIA driver ({} is missing)", library);
    return;
  }
  auto functions = std::make_unique<Functions>();
  if (!functions->find_required(handle)) {
    why_not_ =
        "the NVIDIA driver is too old: its management library (NVML) lacks functions that drivers have since "
        "2021";
    return;
  }
  functions->find_others(handle);
  const int status = functions->init();
  if (status != kSuccess) {
    why_not_ = "NVIDIA's management library (NVML) does not start: " + describe_nvml_status(status);
    return;
  }
  functions_ = std::move(functions);
  library_ = handle;
}

Nvml::~Nvml() = default;

const Nvml& Nvml::installed() {
  static const Nvml nvml(kLibraryName);
  return nvml;
}

bool Nvml::is_open() const {
  return functions_ != nullptr;
}

const std::string& Nvml::why_not() const {
  return why_not_;
}

std::string Nvml::driver_version() const {
  std::array<char, kTextBytes> text{};
  if (!is_open() || functions_->driver_version == nullptr ||
      functions_->driver_version(text.data(), kTextBytes) != kSuccess) {
    return {};
  }
  return text.data();
}

std::optional<int> Nvml::cuda_version() const {
  int version = 0;
  if (!is_open() || functions_->cuda_version == nullptr || functions_->cuda_version(&version) != kSuccess)
    return std::nullopt;
  return version;
}

std::optional<GpuMemory> Nvml::memory(const std::string& uuid) const {
  if (!is_open()) return std::nullopt;
  const auto device = functions_->find_device(uuid);
  if (!device) return std::nullopt;
  Memory memory{};
  memory.version = kMemoryVersion;
  if (functions_->memory(*device, &memory) != kSuccess) return std::nullopt;
  return GpuMemory{.total_bytes = static_cast<int64_t>(memory.total),
                   .used_bytes = static_cast<int64_t>(memory.used),
                   .free_bytes = static_cast<int64_t>(memory.free),
                   .reserved_bytes = static_cast<int64_t>(memory.reserved)};
}

std::vector<GpuProcess> Nvml::processes(const std::string& uuid) const {
  std::vector<GpuProcess> found;
  if (!is_open()) return found;
  if (const auto device = functions_->find_device(uuid))
    functions_->list_processes(*device, functions_->compute_processes, found);
  return found;
}

std::optional<GpuSample> Nvml::load(const std::string& uuid) const {
  if (!is_open()) return std::nullopt;
  const auto device = functions_->find_device(uuid);
  if (!device) return std::nullopt;
  GpuSample sample{.uuid = uuid};
  functions_->read_load(*device, sample);
  return sample;
}

std::vector<GpuSample> Nvml::all() const {
  std::vector<GpuSample> samples;
  unsigned int count = 0;
  if (!is_open() || functions_->count(&count) != kSuccess) return samples;
  for (unsigned int index = 0; index < count; ++index) {
    GpuSample& sample = samples.emplace_back(GpuSample{.index = static_cast<int>(index)});
    Device device = nullptr;
    if (const int status = functions_->device_by_index(index, &device); status != kSuccess) {
      sample.fault = describe_nvml_status(status);
      continue;
    }
    functions_->read_identity(device, sample);
    functions_->read_load(device, sample);
    functions_->read_limits(device, sample);
    functions_->read_links(device, sample);
    functions_->read_processes(device, sample);
    // Removes repeated messages: if the driver refuses several calls of NVML that read one value, each of them reports the same reason.
    const auto last = std::unique(sample.refused.begin(), sample.refused.end());
    sample.refused.erase(last, sample.refused.end());
  }
  return samples;
}

void* Nvml::symbol(const char* name) const {
  return is_open() ? dlsym(library_, name) : nullptr;
}

bool has_nvml(std::string* why_not) {
  const Nvml& nvml = Nvml::installed();
  if (!nvml.is_open() && why_not != nullptr) *why_not = nvml.why_not();
  return nvml.is_open();
}

std::optional<GpuMemory> gpu_memory(const std::string& uuid) {
  return Nvml::installed().memory(uuid);
}

std::vector<GpuProcess> gpu_processes(const std::string& uuid) {
  return Nvml::installed().processes(uuid);
}

}  // namespace plimsoll
