// What this machine's CPU and operating system can run together. Thread-safe: pure after the first call.
#pragma once

#include "target/cpu_isa.h"

namespace plimsoll {

// The highest level that the CPU has and whose registers the operating system saves. It says nothing about
// what a library was told to use by its own environment variables.
CpuIsa cpu_isa();

}  // namespace plimsoll
