// The number of threads of a run. Thread-safe; asks the system which processors this process may use.
#pragma once

#include "plimsoll/arguments.h"

namespace plimsoll {

// Returns the number of hardware threads that this process may use.
int available_threads();
// Returns the number of threads of a run: --num_threads if it is set, otherwise all of those.
int num_run_threads(const Arguments& arguments);

}  // namespace plimsoll
