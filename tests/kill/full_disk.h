// Runs training on a simulated disk that fails at a single call, or at one call and all later ones, because it
// is full (ENOSPC) or defective (EIO). The program must report the failure and end with the exit code for the
// device, the checkpoint before it must stay valid, and the run must resume from it with the same bits.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::testing {

// The kinds of failures: ENOSPC and EIO, each at a single call, or at one call and all later ones.
inline constexpr int kNumDiskFailures = 4;
// Returns true if failure `kind` (from 0) is permanent. A permanent failure differs from a single one only in
// the calls after the first failing one.
bool disk_failure_lasts(int kind);

// Numbers the calls that change the output folder of a run. Makes the call with the number `first` fail with failure
// `kind`, in another run the call `first + stride`, and so on up to the last call. Reports through GoogleTest. Returns
// the number of runs in which a call failed.
int expect_failures_lose_nothing(const std::string& name, int kind, int64_t first, int64_t stride);

}  // namespace plimsoll::testing
