// A sample of the monitor as JSON for programs. Pure; thread-safe.
#pragma once

#include <string>

#include "device/monitor/monitor_sample.h"

namespace plimsoll {

// One object on one line, without a newline. Memory in MiB (1048576 bytes), rounded down as nvidia-smi does;
// a figure that the driver does not say is null.
std::string monitor_json(const MonitorSample& sample);

}  // namespace plimsoll
