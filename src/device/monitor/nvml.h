// NVML, NVIDIA's management library: the memory, load, clocks and processes of each GPU. The library is opened at run
// time; without a driver no GPU is listed and nothing fails. It changes nothing on a card. Thread-safe once
// constructed; the library stays open until the process ends.
//
// Used memory is counted as in nvidia-smi (version 2 of NVML's call): the memory of processes,
// without the memory that the driver reserves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct GpuMemory {
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;
  int64_t free_bytes = 0;
  int64_t reserved_bytes = 0;  // memory that the driver reserves
};

struct GpuProcess {
  int64_t pid = 0;
  int64_t used_bytes = 0;  // GPU memory of the process; 0 if the driver does not report it
  std::string name = {};
};

struct GpuClocks {
  std::optional<int> sm_mhz = {};
  std::optional<int> max_sm_mhz = {};
  std::optional<int> memory_mhz = {};
  std::optional<int> max_memory_mhz = {};
  std::optional<uint64_t> events = {};  // the reasons for reduced clocks as bits, which throttle.h interprets
};

struct GpuPower {
  std::optional<double> watts = {};
  std::optional<double> limit_w = {};
};

struct GpuThermals {
  std::optional<int> celsius = {};
  std::optional<int> slowdown_c = {};  // the temperature at which the card reduces its clocks
  // Degrees C from the current temperature to slowdown_c, for cards that report this difference instead of slowdown_c.
  std::optional<int> slowdown_margin_c = {};
  std::optional<int> fan_percent = {};
};

// Memory errors since the driver was loaded.
struct EccErrors {
  std::optional<int64_t> corrected = {};
  std::optional<int64_t> uncorrected = {};
};

struct PcieLink {
  std::optional<int> generation = {};
  std::optional<int> max_generation = {};
  std::optional<int> width = {};
  std::optional<int> max_width = {};
  friend bool operator==(const PcieLink&, const PcieLink&) = default;
};

struct NvLinks {
  std::optional<int> up = {};
  std::optional<int> all = {};  // number of NVLinks of the card
};

// The state of one GPU at one moment, as the driver reports it. Values that the driver does not report are empty: a card may have
// no fan, and an old driver may not know a value.
struct GpuSample {
  int index = 0;  // index that nvidia-smi uses, regardless of CUDA_VISIBLE_DEVICES
  std::string name = {};
  std::string uuid = {};       // identifier "GPU-..."
  std::optional<int> sm = {};  // compute capability, 90 for 9.0
  std::string fault = {};      // the reason why nothing can be read from the GPU; "" if something can be read
  std::vector<std::string> refused = {};  // values that the driver withholds, such as "power (no permission)"
  std::optional<GpuMemory> memory = {};
  std::optional<int> gpu_percent = {};  // percentage of the last sampling period in which a kernel ran
  // percentage of the last sampling period in which memory was read or written
  std::optional<int> memory_percent = {};
  GpuClocks clocks = {};
  GpuPower power = {};
  GpuThermals thermals = {};
  EccErrors ecc = {};
  PcieLink pcie = {};
  NvLinks nvlinks = {};
  bool has_processes = false;  // true if the driver reported the list of processes
  std::vector<GpuProcess> processes = {};
};

class Nvml {
 public:
  static constexpr const char* kLibraryName = "libnvidia-ml.so.1";
  // Returns the library of this machine's driver, which is opened once.
  static const Nvml& installed();

  // Opens the library of this name or path. If that fails, is_open() is false. Errors: none.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool is_open() const;
  // Returns the reason why the library is not open, as a part of a sentence; "" if it is open.
  const std::string& why_not() const;

  std::string driver_version() const;
  // the latest CUDA version that the driver supports, 12080 for 12.8
  std::optional<int> cuda_version() const;

  // Return the memory and the processes of the GPU with this UUID ("GPU-...") now; nothing if the library is not open or
  // does not know the GPU.
  std::optional<GpuMemory> memory(const std::string& uuid) const;
  std::vector<GpuProcess> processes(const std::string& uuid) const;
  // Returns the values that change while the card works: memory, utilisation, clocks, power and its limit, temperature,
  // fan, clock events. Cost: some ms.
  std::optional<GpuSample> load(const std::string& uuid) const;
  // Returns all values of every GPU. Cost: some 10 ms per GPU.
  std::vector<GpuSample> all() const;

  // Returns the function of the library with this name, or null if the library is not open or lacks it. For code that calls
  // functions of NVML which this class does not wrap (topology.h).
  void* symbol(const char* name) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  std::string why_not_;
};

// Returns the status of a call of NVML as a part of a sentence: "no permission".
std::string describe_nvml_status(int status);

// Returns true if the installed library could be opened; otherwise stores the reason in `why_not`, unless it is null.
bool has_nvml(std::string* why_not = nullptr);
// Returns the memory of the GPU with this UUID now; nothing if NVML is missing or does not know the GPU.
std::optional<GpuMemory> gpu_memory(const std::string& uuid);
// Returns the processes that compute on the GPU with this UUID.
std::vector<GpuProcess> gpu_processes(const std::string& uuid);

}  // namespace plimsoll
