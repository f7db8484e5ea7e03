// After a run: what was predicted, what was held, what was measured. Pure; thread-safe.
#pragma once

#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

// Arena, device constant and total as predicted before the run, as held by it, and as measured: the end of
// what was in use of the arena, and the peak that the operating system saw. Ends with the verdict.
// Newline at the end.
std::string memory_outcome_table(const MemoryFigures& figures);

}  // namespace plimsoll
