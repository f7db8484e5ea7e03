// What this machine's CPU and operating system can run together. Thread-safe: pure after the first call.
#pragma once

#include "hardware/cpu_isa.h"

namespace plimsoll {

// The highest level that the CPU has and whose registers the operating system saves, which for AMX tiles it
// is asked at the first call. It says nothing about what a library was told to use by its own environment
// variables.
CpuIsa cpu_isa();

// Whether this process may use AMX tiles: cpu_isa() has them.
bool may_use_amx_tiles();

}  // namespace plimsoll
