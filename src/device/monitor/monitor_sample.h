// The data that `plimsoll monitor` shows at one moment: every requested GPU, and the host. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/monitor/host.h"
#include "device/monitor/nvml.h"
#include "hardware/cpu_isa.h"

namespace plimsoll {

// Lists the number formats that a device multiplies in hardware: the tensor cores of a GPU by its compute capability,
// a CPU by its instruction sets. Pure; thread-safe.

struct Capability {
  std::string format = {};  // name of the number format, such as "bf16"
  bool is_there = false;
  std::string why = {};
};

// Returns for each of the formats fp16, bf16, tf32 and fp8, in this order, whether the tensor cores of a GPU of this compute
// capability multiply it. `sm` is 90 for compute capability 9.0.
std::vector<Capability> gpu_capabilities(int sm);

// Returns for each of the formats fp32, bf16, fp16, tf32 and fp8, in this order, whether the CPU multiplies it in hardware.
// `multiplies_fp16`: the CPU has AVX512_FP16 or AMX-FP16.
std::vector<Capability> cpu_capabilities(CpuIsa isa, bool multiplies_fp16);

struct HostSample {
  std::string cpu = {};             // name of the CPU
  int num_threads = 0;              // number of threads that this process may run at the same time
  std::string isa = {};             // name of the instruction set
  std::optional<double> load = {};  // mean number of runnable threads over the last minute
  MachineMemory memory = {};
  // The number formats that the CPU multiplies in hardware. The list is empty unless the user requested it.
  std::vector<Capability> capabilities = {};
};

// Returns the current state of this machine. `isa` is the text of describe_isa().
HostSample sample_host(const std::string& isa, const SystemPaths& paths = {});

// The used memory of a GPU before and after a CUDA context was created on it.
struct ContextSample {
  int index = 0;  // index of the GPU, as in GpuSample
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
  std::string why_not = {};  // the reason why it could not be measured; "" if it was measured
};

struct MonitorSample {
  std::string time = {};                 // time of the sample, such as "2026-11-21T09:12:01Z"
  std::string why_no_gpu = {};           // the reason why no GPU is listed, as a part of a sentence
  std::string driver = {};               // version of the driver
  std::optional<int> cuda_version = {};  // the latest CUDA version that the driver supports, 12080 for 12.8
  std::vector<GpuSample> gpus = {};
  HostSample host = {};
  bool with_capabilities = false;  // true if the user requested the number formats of the devices
  bool with_context = false;
  // memory of new CUDA contexts, for the GPUs on which it was measured
  std::vector<ContextSample> contexts = {};
};

// Sums and means over all GPUs that report values.
struct GpuSum {
  GpuMemory memory = {};
  double power_w = 0;
  double mean_gpu_percent = 0;  // mean of gpu_percent over the GPUs that report it
};
GpuSum sum_of(const std::vector<GpuSample>& gpus);

// Formats a version such as "12.8"; "" if there is none.
std::string cuda_version_text(std::optional<int> version);
// Returns a sentence for the case that no GPU is listed. It states the reason and the requested GPUs, and says that the host is
// shown instead.
std::string no_gpu_sentence(const MonitorSample& sample);

// Formats a sample of the monitor as text for people. Pure; thread-safe.

// Returns several rows of text per GPU, and a row with the sums if there are several GPUs. Without a GPU, describes the host.
// Values that the driver does not report have no row. Ends with a newline.
std::string monitor_table(const MonitorSample& sample);

// Returns one line of text per GPU, or one line for the host if there is no GPU. These lines are meant for a log to which each
// sample is appended. Ends with a newline.
std::string monitor_lines(const MonitorSample& sample);

// Formats a sample of the monitor as JSON for programs. Pure; thread-safe.

// Returns the sample as one JSON object on one line, without a newline. Memory is in MiB (1048576 bytes), rounded down as
// nvidia-smi does. Values that the driver does not report are null.
std::string monitor_json(const MonitorSample& sample);

}  // namespace plimsoll
