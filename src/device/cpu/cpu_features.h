// What this machine's CPU and operating system can run together. Thread-safe: pure after the first call.
#pragma once

#include "target/cpu_isa.h"

namespace plimsoll {

// The highest level that the CPU has and whose registers the operating system saves. It says nothing about
// what a library was told to use by its own environment variables.
CpuIsa cpu_isa();

// Whether this process may use AMX tiles: cpu_isa() has them, and the operating system grants their
// registers, which it is asked for at the first call.
bool may_use_amx_tiles();

}  // namespace plimsoll
