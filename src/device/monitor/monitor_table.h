// Formats a sample of the monitor as text for people. Pure; thread-safe.
#pragma once

#include <string>

#include "device/monitor/monitor_sample.h"

namespace plimsoll {

// Returns a block of rows per GPU, and the sum if there are several; without a GPU, the host. Figures that
// the driver does not report have no row. Ends with a newline.
std::string monitor_table(const MonitorSample& sample);

// Returns one line per GPU, or one line for the host, for a growing log. Ends with a newline.
std::string monitor_lines(const MonitorSample& sample);

}  // namespace plimsoll
