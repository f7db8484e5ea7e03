// Detects the instruction sets that this machine's CPU and operating system support together. Thread-safe:
// pure after the first call.
#pragma once

#include "hardware/cpu_isa.h"

namespace plimsoll {

// Returns the highest level of instruction sets that the CPU has and whose registers the operating
// system saves. The first call requests AMX tiles from the operating system. Environment variables
// that limit the instruction sets of a library have no effect.
CpuIsa cpu_isa();

// Returns true if this process may use AMX tiles: the CPU has them and the operating system granted them.
bool may_use_amx_tiles();

}  // namespace plimsoll
