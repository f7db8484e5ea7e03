// The figures of a GPU for the log of a run, and warnings if the GPU slows down. It is not a monitor: it
// reads one card when it is called. One thread uses an object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/monitor/nvml.h"
#include "plimsoll/log_history.h"

namespace plimsoll {

class GpuLog {
 public:
  // `uuid` is the identifier that NVML prints, `label` the name of the device in messages. `nvml` must
  // outlive the object.
  explicit GpuLog(std::string uuid, std::string label, const Nvml& nvml = Nvml::installed());

  // Adds gpu_memory_used_mib, gpu_utilization and gpu_memory_utilization (0 to 100), gpu_sm_clock_mhz,
  // gpu_memory_clock_mhz, gpu_power_w, gpu_power_limit_w, gpu_temperature_c, gpu_fan (0 to 100), and the text
  // gpu_throttle: why the clocks are lower than they could be, such as "power cap, idle", or "none". Figures
  // that the driver does not report are omitted; without NVML that is all of them. Returns a warning for each
  // cause of throttling that this object finds for the first time, and one for a high temperature before that. Cost: some ms.
  std::vector<std::string> add(LogRecord& record);

 private:
  std::string uuid_;
  std::string label_;
  const Nvml& nvml_;
  bool warned_hot_ = false;
  uint64_t warned_ = 0;  // bits of the events for which there was a warning
};

}  // namespace plimsoll
