// The data that `plimsoll monitor` shows at one moment: every requested GPU, and the host. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/monitor/capabilities.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"

namespace plimsoll {

struct HostSample {
  std::string cpu = {};             // name of the CPU
  int num_threads = 0;              // number of threads that this process may run at the same time
  std::string isa = {};             // name of the instruction set
  std::optional<double> load = {};  // mean number of runnable threads over the last minute
  MachineMemory memory = {};
  std::vector<Capability> capabilities = {};  // if they were requested
};

// Samples this machine now. `isa` is the text of isa_words().
HostSample sample_host(const std::string& isa, const SystemPaths& paths = {});

// The memory that a new CUDA context uses on a GPU.
struct ContextSample {
  int index = 0;  // index of the GPU, as in GpuSample
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
  std::string why_not = {};  // why it was not measured; "" if it was
};

struct MonitorSample {
  std::string time = {};                 // "2026-11-21T09:12:01Z"
  std::string why_no_gpu = {};           // why there is no GPU, as a part of a sentence
  std::string driver = {};               // version of the driver
  std::optional<int> cuda_version = {};  // 12080 for 12.8
  std::vector<GpuSample> gpus = {};
  HostSample host = {};
  bool with_capabilities = false;  // whether the capabilities were requested
  bool with_context = false;
  std::vector<ContextSample> contexts = {};  // contexts that were measured
};

// Sums and means over the GPUs that could be read.
struct GpuSum {
  GpuMemory memory = {};
  double power_w = 0;
  double mean_gpu_percent = 0;  // mean over the GPUs that report it
};
GpuSum sum_of(const std::vector<GpuSample>& gpus);

// Formats a version such as "12.8"; "" if there is none.
std::string cuda_version_text(std::optional<int> version);
// Returns a sentence that says why no GPU is listed, what was requested, and that the host follows.
std::string no_gpu_sentence(const MonitorSample& sample);

}  // namespace plimsoll
