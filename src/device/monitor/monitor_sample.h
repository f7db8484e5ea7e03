// What `plimsoll monitor` shows at one moment: every GPU that was asked for, and the host. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/monitor/host.h"
#include "device/monitor/nvml.h"

namespace plimsoll {

struct HostSample {
  std::string cpu = {};             // its name
  int num_threads = 0;              // that this process may use at once
  std::string isa = {};             // in words
  std::optional<double> load = {};  // mean number of runnable threads over the last minute
  MachineMemory memory = {};
};

// Of this machine, now. `isa` as isa_words has it.
HostSample sample_host(const std::string& isa, const SystemPaths& paths = {});

// What a CUDA context takes on a GPU before it holds anything.
struct ContextSample {
  int index = 0;  // of the GPU, as in GpuSample
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
  std::string why_not = {};  // why it was not measured; "" where it was
};

struct MonitorSample {
  std::string time = {};                 // "2026-11-21T09:12:01Z"
  std::string why_no_gpu = {};           // where there are none: a part of a sentence
  std::string driver = {};               // its version
  std::optional<int> cuda_version = {};  // 12080 for 12.8
  std::vector<GpuSample> gpus = {};
  HostSample host = {};
  bool with_capabilities = false;  // whether they were asked for
  bool with_context = false;
  std::vector<ContextSample> contexts = {};  // where they were measured
};

// Over the GPUs that could be read.
struct GpuSum {
  GpuMemory memory = {};
  double power_w = 0;
  double mean_gpu_percent = 0;  // over those that say it
};
GpuSum sum_of(const std::vector<GpuSample>& gpus);

// "12.8"; "" for none.
std::string cuda_version_text(std::optional<int> version);
// The parts of a sample that come to words before they come to a table or to JSON: why there is no GPU, what
// of it was asked for, and that the host follows.
std::string no_gpu_sentence(const MonitorSample& sample);

}  // namespace plimsoll
