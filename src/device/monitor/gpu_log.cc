#include "device/monitor/throttle.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace plimsoll {

GpuLog::GpuLog(std::string uuid, std::string label, const Nvml& nvml)
    : uuid_(std::move(uuid)), label_(std::move(label)), nvml_(nvml) {}

std::vector<std::string> GpuLog::add(LogRecord& record) {
  const auto sample = nvml_.load(uuid_);
  if (!sample) return {};
  const auto put = [&](const char* name, const auto& value) {
    if (value) record.values[name] = static_cast<double>(*value);
  };
  if (sample->memory) {
    record.values["gpu_memory_used_mib"] =
        std::floor(static_cast<double>(sample->memory->used_bytes) / (1 << 20));
  }
  put("gpu_utilization", sample->gpu_percent);
  put("gpu_memory_utilization", sample->memory_percent);
  put("gpu_sm_clock_mhz", sample->clocks.sm_mhz);
  put("gpu_memory_clock_mhz", sample->clocks.memory_mhz);
  put("gpu_power_w", sample->power.watts);
  put("gpu_power_limit_w", sample->power.limit_w);
  put("gpu_temperature_c", sample->thermals.celsius);
  put("gpu_fan", sample->thermals.fan_percent);
  if (sample->clocks.events) {
    const std::string names = clock_event_names(*sample);
    record.words["gpu_throttle"] = names.empty() ? "none" : names;
  }
  std::vector<std::string> warnings;
  // Warn of the temperature only if the card does not reduce its clocks yet. If it does, there is a warning about the clocks instead.
  if (!warned_hot_ && warned_ == 0 && clock_events(*sample).empty() &&
      temperature_verdict(*sample) == Verdict::kHigh) {
    warned_hot_ = true;
    warnings.push_back(fmt::format("{} is at {} C, which is {}", label_, *sample->thermals.celsius,
                                   describe_temperature_verdict(*sample)));
  }
  for (const ClockEvent& event : clock_events(*sample)) {
    if (!event.is_throttling || (warned_ & event.bit) != 0) continue;
    warned_ |= event.bit;
    warnings.push_back(throttle_warning(label_, event));
  }
  return warnings;
}

}  // namespace plimsoll
