// Explains why a GPU's clocks are lower than they could be, and what to do about it. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/monitor/nvml.h"

namespace plimsoll {

struct ClockEvent {
  uint64_t bit = 0;
  std::string name = {};    // "power cap"
  std::string advice = {};  // what to do; "" if nothing is wrong
  bool is_throttling =
      false;  // the card is slower than it could be, because power or cooling is insufficient
};

// Returns the events of the sample's clock events, hardware first. If the driver names the cause of a
// slowdown, only the cause is listed. Empty if nothing reduces the clocks.
std::vector<ClockEvent> clock_events(const GpuSample& sample);

// Returns the names of these events, such as "power cap, idle"; "" if there are none.
std::string clock_event_names(const GpuSample& sample);

// Formats one line for people: "GPU 0 slows down: power cap. ...". Requires: event.is_throttling.
std::string throttle_warning(const std::string& gpu, const ClockEvent& event);

}  // namespace plimsoll
