#include "show/monitor/gpu_log.h"

#include <cmath>
#include <utility>

#include "show/monitor/throttle.h"

namespace plimsoll {

GpuLog::GpuLog(std::string uuid, std::string label, const Nvml& nvml)
    : uuid_(std::move(uuid)), label_(std::move(label)), nvml_(nvml) {}

std::vector<std::string> GpuLog::add(MetricMap& values) {
  const auto sample = nvml_.load(uuid_);
  if (!sample) return {};
  if (sample->memory)
    values["gpu_memory_used_mib"] = std::floor(static_cast<double>(sample->memory->used_bytes) / (1 << 20));
  if (sample->gpu_percent) values["gpu_utilization"] = *sample->gpu_percent;
  if (sample->power_w) values["gpu_power_w"] = *sample->power_w;
  if (sample->temperature_c) values["gpu_temperature_c"] = *sample->temperature_c;
  if (sample->sm_clock_mhz) values["gpu_sm_clock_mhz"] = *sample->sm_clock_mhz;
  std::vector<std::string> warnings;
  for (const ClockEvent& event : clock_events(*sample)) {
    if (!event.is_throttling || (warned_ & event.bit) != 0) continue;
    warned_ |= event.bit;
    warnings.push_back(throttle_warning(label_, event));
  }
  return warnings;
}

}  // namespace plimsoll
