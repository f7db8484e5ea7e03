// Tests runs in which some of the calls that change the output folder fail with ENOSPC or EIO.
#include <gtest/gtest.h>

#include "tests/kill/full_disk.h"

namespace plimsoll::testing {
namespace {

TEST(FullDisk, FailuresAtEveryFortyFirstCallLoseNothing) {
  int failed = 0;
  for (int kind = 0; kind < kNumDiskFailures; ++kind) {
    failed += expect_failures_lose_nothing("full_disk", kind, 0, disk_failure_lasts(kind) ? 7 * 41 : 41);
  }
  EXPECT_GE(failed, 16);
}

}  // namespace
}  // namespace plimsoll::testing
