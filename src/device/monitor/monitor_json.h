// Formats a sample of the monitor as JSON for programs. Pure; thread-safe.
#pragma once

#include <string>

#include "device/monitor/monitor_sample.h"

namespace plimsoll {

// Returns one object on one line, without a newline. Memory is in MiB (1048576 bytes), rounded down as
// nvidia-smi does. A figure that the driver does not report is null.
std::string monitor_json(const MonitorSample& sample);

}  // namespace plimsoll
