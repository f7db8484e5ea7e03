// Reports the memory, load, clocks and capabilities of this machine's GPUs. These are the figures of
// nvidia-smi, read from the driver's management library (NVML), which is loaded at run time. The monitor
// changes no setting of a card. A Monitor may be used by one thread only.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

struct MonitorOptions {
  // The GPU to show: "" for all, "1" for the GPU with index 1 in nvidia-smi, "cuda:1" for the second device
  // in CUDA_VISIBLE_DEVICES.
  std::string device = {};
  bool with_capabilities = false;  // report support for fp16, bf16, tf32 and fp8, with the reasons
  // Measure, once, the memory of an empty CUDA context on each GPU that is shown. This creates a context
  // there in the current process.
  bool with_context = false;
  // Name or path of the driver's management library.
  std::string library = "libnvidia-ml.so.1";
};

// One sample, in three formats.
struct MonitorReport {
  std::string table;  // for people: a block of rows per GPU
  std::string lines;  // for a growing log: one line per GPU
  std::string json;   // for programs: one object on one line without a newline
};

// The connections between the GPUs of this machine, and its NUMA nodes.
struct TopologyReport {
  std::string text;  // for people: the matrix of nvidia-smi topo -m with its legend, and what the links mean
  std::string json;  // for programs: one object on one line without a newline
};

// Reads the connections of all GPUs that the driver lists. Without a driver or a GPU, the report contains the NUMA nodes of
// the host and the reason. `library` is that of MonitorOptions. Errors: none. Cost: about 10 ms per GPU.
TopologyReport read_topology_report(const std::string& library = MonitorOptions().library);

class Monitor {
 public:
  // Opens the management library. Errors: kUsage if `device` is neither a number nor cuda:N; kDevice if that
  // GPU does not exist. If `device` is empty, a machine without a driver or a GPU is not an error: reports
  // then show the host and the reason why there is no GPU.
  explicit Monitor(MonitorOptions options = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Takes one sample. Cost: about 10 ms per GPU.
  MonitorReport sample() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
