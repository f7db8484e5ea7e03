// Runs training on a simulated disk that fails at a single call, or at one call and all later ones, because it is full (ENOSPC) or
// defective (EIO). The program must report the failure and end with exit code 7 (an error of a device), the checkpoint before the failure
// must stay valid, and a run that resumes from it must end with the same bits as a run without failures.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::testing {

// The kinds of failures: ENOSPC and EIO, each at a single call, or at one call and all later ones.
inline constexpr int kNumDiskFailures = 4;
// Returns true if failure `kind` (from 0) is permanent. A permanent failure differs from a single one only in
// the calls after the first failing one.
bool disk_failure_lasts(int kind);

// Makes one call fail per run. The calls with which a run changes its output folder are numbered; in the first run the
// call `first` fails with failure `kind`, in the second run the call `first + stride`, and so on up to the last call.
// Reports errors through GoogleTest. Returns the number of runs in which a call failed.
int expect_failures_lose_nothing(const std::string& name, int kind, int64_t first, int64_t stride);

}  // namespace plimsoll::testing
