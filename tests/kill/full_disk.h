// A run whose disk is full or broken at one call, or from one call on: the program says what happened and
// ends with the device's code, the checkpoint before it still verifies, and the run goes on from there to the
// same bits.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::testing {

// ENOSPC and EIO, at one call and from one call on.
inline constexpr int kNumDiskFailures = 4;
// Whether failure `kind` (from 0) lasts: such a one differs from a moment's in what comes after, not in where
// it begins.
bool disk_failure_lasts(int kind);

// Lets failure `kind` strike at call `first` of those that change the output folder, in another run at call
// `first + stride`, and so on to the last call. Reports through GoogleTest. Returns the number of runs in
// which a call failed.
int expect_failures_lose_nothing(const std::string& name, int kind, int64_t first, int64_t stride);

}  // namespace plimsoll::testing
