// A sample of the monitor as text for people. Pure; thread-safe.
#pragma once

#include <string>

#include "device/monitor/monitor_sample.h"

namespace plimsoll {

// A block of rows for each GPU, the sum where there are several, the host where there is none. A figure that
// the driver does not say has no row. Newline at the end.
std::string monitor_table(const MonitorSample& sample);

// One line for each GPU, or one of the host: for a log that grows. Newline at the end.
std::string monitor_lines(const MonitorSample& sample);

}  // namespace plimsoll
