// Why a GPU's clocks are lower than they could be, in words, and what to do about it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/monitor/nvml.h"

namespace plimsoll {

struct ClockEvent {
  uint64_t bit = 0;
  std::string name = {};       // "power cap"
  std::string advice = {};     // what to do; "" where nothing is wrong
  bool is_throttling = false;  // the card does less than it could, for want of power or cooling
};

// The events of sample.clock_events, hardware first. A slowdown whose cause the driver names is listed under
// its cause alone. Empty where nothing holds the clocks back.
std::vector<ClockEvent> clock_events(const GpuSample& sample);

// Their names, "power cap, idle"; "" where there are none.
std::string clock_event_names(const GpuSample& sample);

// "GPU 0 slows down: power cap. ...": one line for people. Requires: event.is_throttling.
std::string throttle_warning(const std::string& gpu, const ClockEvent& event);

}  // namespace plimsoll
