// Compares the memory of a finished run: predicted, allocated and measured. Pure; thread-safe.
#pragma once

#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

// Formats arena, device constant and total as predicted before the run, as allocated, and as measured: the
// end of the used part of the arena, and the peak seen by the operating system. Ends with the verdict and a
// newline.
std::string memory_outcome_table(const MemoryFigures& figures);

}  // namespace plimsoll
