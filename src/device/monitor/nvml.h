// NVIDIA's management library: what a GPU holds and does, by whom. Opened at run time: without a driver there
// are no GPUs, and nothing fails. It changes nothing on a card. Thread-safe once constructed; the library
// stays open until the process ends.
//
// Memory is counted as nvidia-smi prints it (version 2 of the call): what processes hold, without the
// driver's own reserve.
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
  int64_t reserved_bytes = 0;  // by the driver
};

struct GpuProcess {
  int64_t pid = 0;
  int64_t used_bytes = 0;  // 0 where the driver does not say
  std::string name = {};
};

// What the driver says of one GPU at one moment. What it does not say is empty: a card has no fan, a driver
// is older than a figure.
struct GpuSample {
  int index = 0;  // as nvidia-smi counts, whatever CUDA_VISIBLE_DEVICES says
  std::string name = {};
  std::string uuid = {};                  // "GPU-..."
  std::optional<int> sm = {};             // compute capability, 90 for 9.0
  std::string fault = {};                 // why nothing can be read of it; "" where something can
  std::vector<std::string> refused = {};  // figures that the driver keeps back, "power (no permission)"
  std::optional<GpuMemory> memory = {};
  std::optional<int> gpu_percent = {};     // of the last moments in which some kernel ran
  std::optional<int> memory_percent = {};  // in which memory was read or written
  std::optional<int> sm_clock_mhz = {};
  std::optional<int> max_sm_clock_mhz = {};
  std::optional<int> memory_clock_mhz = {};
  std::optional<int> max_memory_clock_mhz = {};
  std::optional<double> power_w = {};
  std::optional<double> power_limit_w = {};
  std::optional<int> temperature_c = {};
  std::optional<int> slowdown_c = {};         // the temperature at which the card slows down
  std::optional<int> slowdown_margin_c = {};  // degrees to it, on cards that say only that
  std::optional<int> fan_percent = {};
  std::optional<uint64_t> clock_events = {};  // bits; throttle.h has the words
  std::optional<int64_t> ecc_corrected = {};  // since the driver was loaded
  std::optional<int64_t> ecc_uncorrected = {};
  std::optional<int> pcie_generation = {};
  std::optional<int> max_pcie_generation = {};
  std::optional<int> pcie_width = {};
  std::optional<int> max_pcie_width = {};
  std::optional<int> nvlinks_up = {};
  std::optional<int> nvlinks = {};  // that the card has
  bool has_processes = false;       // whether the driver gave the list
  std::vector<GpuProcess> processes = {};
};

class Nvml {
 public:
  static constexpr const char* kLibraryName = "libnvidia-ml.so.1";
  // The library of this machine's driver, opened once.
  static const Nvml& installed();

  // Opens the library of this name or path; is_open() says whether that worked. Errors: none.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool is_open() const;
  // Why it is not open, a part of a sentence; "" where it is.
  const std::string& why_not() const;

  std::string driver_version() const;
  std::optional<int> cuda_version() const;  // that the driver can do, 12080 for 12.8

  // By UUID ("GPU-..."), now. Nothing where the library is not open or does not know it.
  std::optional<GpuMemory> memory(const std::string& uuid) const;
  std::vector<GpuProcess> processes(const std::string& uuid) const;
  // What changes while the card works: memory, utilisation, clocks, power and its limit, temperature, fan,
  // clock events. Cost: some ms.
  std::optional<GpuSample> load(const std::string& uuid) const;
  // Everything of every GPU. Cost: some 10 ms a GPU.
  std::vector<GpuSample> all() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  std::string why_not_;
};

// Of the installed library. Whether it could be opened; `why_not`, where given, then says the reason.
bool has_nvml(std::string* why_not = nullptr);
// Memory of the GPU with this UUID, now. Nothing where NVML is missing or does not know it.
std::optional<GpuMemory> gpu_memory(const std::string& uuid);
// The processes that compute on it.
std::vector<GpuProcess> gpu_processes(const std::string& uuid);

}  // namespace plimsoll
