// Reports the memory, load, clocks and capabilities of this machine's GPUs. These are the values that nvidia-smi shows.
// They are read from the driver's management library (NVML), which is loaded at run time. The monitor changes no
// setting of a card. A Monitor may be used by one thread only.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

struct MonitorOptions {
  // The GPU to show: "" for all, "1" for the GPU with index 1 in nvidia-smi, "cuda:1" for the second device
  // in CUDA_VISIBLE_DEVICES.
  std::string device = {};
  // if true, the report states whether each GPU supports fp16, bf16, tf32 and fp8, with the reasons
  bool with_capabilities = false;
  // if true, the memory of an empty CUDA context is measured once on each GPU that is shown; the measurement creates a context on this GPU
  // in the current process
  bool with_context = false;
  // file name or path of the driver's management library (NVML)
  std::string library = "libnvidia-ml.so.1";
};

// The state of the GPUs at one time, in three formats.
struct MonitorReport {
  std::string table;  // table for people with several rows per GPU
  std::string lines;  // one line per GPU, to be appended to a log
  std::string json;   // one JSON object on one line without a newline, for programs
};

// Describes the connections between the GPUs of this machine, and its NUMA nodes.
struct TopologyReport {
  // for people: the matrix of nvidia-smi topo -m with its legend, and the meaning of the links
  std::string text;
  std::string json;  // one JSON object on one line without a newline, for programs
};

// Reads the connections of all GPUs that the driver lists. Without a driver or a GPU, the report contains the NUMA
// nodes of the host and the reason. `library` is the path of the driver's management library, as in MonitorOptions.
// Errors: none. Cost: about 10 ms per GPU.
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

  // Reads the current state of the GPUs. Cost: about 10 ms per GPU.
  MonitorReport sample() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
