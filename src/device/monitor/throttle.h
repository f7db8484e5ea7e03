// Explains why the clocks of a GPU are reduced, or soon will be, and what to do about it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/monitor/nvml.h"
#include "plimsoll/log_history.h"

namespace plimsoll {

struct ClockEvent {
  uint64_t bit = 0;
  std::string name = {};    // short name, such as "power cap"
  std::string advice = {};  // what the user can do; "" if nothing needs to be done
  bool is_throttling =
      false;  // the card is slower than it could be, because power or cooling is insufficient
};

// Returns the reasons for reduced clocks that the sample contains, those of the hardware first. If the driver names the cause of
// a slowdown, the slowdown itself is not listed in addition. Empty if nothing reduces the clocks.
std::vector<ClockEvent> clock_events(const GpuSample& sample);

// Returns the names of the reasons of clock_events(), separated by commas, such as "power cap, idle"; "" if there are none.
std::string clock_event_names(const GpuSample& sample);

// A judgement of a temperature or of a power draw. The comment of each verdict states the limits for both quantities, where they apply.
enum class Verdict : uint8_t {
  kUnknown,  // the driver does not report the temperature or the power draw
  kGood,     // temperature below 75 C; power draw below 95 % of the limit
  kWarm,     // temperature from 75 to 80 C
  // temperature above 80 C, or within 5 C of the one at which the card reduces its clocks; power draw of at least 95 % of the
  // limit
  kHigh,
};

// Judges the temperature. Source of the limits: temperatures below 80 C are fine under load, 70 to 75 C are excellent,
// and cards begin to throttle at 84 to 90 C (Hugging Face's guide to hardware for training).
Verdict temperature_verdict(const GpuSample& sample);
// Compares the power draw with the power limit.
Verdict power_verdict(const GpuSample& sample);

// Returns "good", "warm" or "high"; "" if the verdict is unknown.
std::string_view verdict_name(Verdict verdict);
// Returns the verdict with its reason and what to do, such as "good (under 75 C)"; "" if it is unknown.
std::string describe_temperature_verdict(const GpuSample& sample);
// Returns the consequence of a high power draw; "" if the power draw is not high.
std::string describe_power_verdict(const GpuSample& sample);

// Formats one line for people: "GPU 0 slows down: power cap. ...". Requires: event.is_throttling.
std::string throttle_warning(const std::string& gpu, const ClockEvent& event);

// Reads the state of one GPU for the log of a training run, and warns if the GPU reduces its clocks. One thread uses an object.

class GpuLog {
 public:
  // Creates a log of one GPU. `uuid` is its identifier as NVML prints it, and `label` its name in messages. `nvml` must outlive
  // the object.
  explicit GpuLog(std::string uuid, std::string label, const Nvml& nvml = Nvml::installed());

  // Adds gpu_memory_used_mib, gpu_utilization and gpu_memory_utilization (0 to 100), gpu_sm_clock_mhz,
  // gpu_memory_clock_mhz, gpu_power_w, gpu_power_limit_w, gpu_temperature_c, gpu_fan (0 to 100), and the text
  // gpu_throttle: why the clocks are lower than they could be, such as "power cap, idle", or "none". Values
  // that the driver does not report are omitted; without NVML nothing is added. Returns a warning for each cause of throttling that
  // this object finds for the first time. Also warns once of a high temperature if no throttling was found before. Cost: some ms.
  std::vector<std::string> add(LogRecord& record);

 private:
  std::string uuid_;
  std::string label_;
  const Nvml& nvml_;
  bool warned_hot_ = false;
  uint64_t warned_ = 0;  // bits of the reasons about which a warning was already returned
};

}  // namespace plimsoll
