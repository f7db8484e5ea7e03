// How many threads a run has. Thread-safe; reads what the system lets this process use.
#pragma once

#include "plimsoll/arguments.h"

namespace plimsoll {

// Threads of the machine that this process may use.
int available_threads();
// Threads of a run: as many as are asked for, else all of those.
int num_run_threads(const Arguments& arguments);

}  // namespace plimsoll
