// A run whose disk is full or broken at one call, or from one call on: the program says what happened and
// ends with the device's code, the checkpoint before it still verifies, and the run goes on from there to the
// same bits.
#pragma once

#include <cstdint>

namespace plimsoll::testing {

// Lets every `stride`-th call fail that changes the output folder, with ENOSPC and with EIO, once; and every
// seventh of those for good. Reports through GoogleTest. Returns the number of runs in which a call failed.
int expect_failures_lose_nothing(const char* name, int64_t stride);

}  // namespace plimsoll::testing
