// A GPU's figures for the log of a run that uses it, and warnings where it slows down. Not a monitor: it
// reads one card, when it is asked. One thread uses an object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/log_history.h"
#include "show/monitor/nvml.h"

namespace plimsoll {

class GpuLog {
 public:
  // `uuid` as NVML prints it, `label` as people know the device. `nvml` must outlive the object.
  explicit GpuLog(std::string uuid, std::string label, const Nvml& nvml = Nvml::installed());

  // Adds gpu_memory_used_mib, gpu_utilization (0 to 100), gpu_power_w, gpu_temperature_c and
  // gpu_sm_clock_mhz, as far as the driver says them; nothing without NVML. Returns a warning for each cause
  // of throttling that this object sees for the first time. Cost: some ms.
  std::vector<std::string> add(MetricMap& values);

 private:
  std::string uuid_;
  std::string label_;
  const Nvml& nvml_;
  uint64_t warned_ = 0;  // bits of the events that were warned of
};

}  // namespace plimsoll
