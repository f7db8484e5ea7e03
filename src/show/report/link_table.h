// Formats the measured times of exchanges between ranks as text for people. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/link_calibration.h"

namespace plimsoll {

// Formats a number of bytes: "1 KiB", "16 MiB", "1020 B".
std::string format_size(int64_t bytes);

// Returns a table per collective operation with time, spread and bandwidth of each size, and an explanation of the columns.
// `device` is the name of the CPU or the GPUs. Ends with a newline.
std::string link_table(const MeasuredLinks& links, const std::string& device);

}  // namespace plimsoll
