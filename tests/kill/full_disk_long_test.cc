// ENOSPC and EIO at every call with which a run changes its output folder.
#include <gtest/gtest.h>

#include "tests/kill/full_disk.h"

namespace plimsoll::testing {
namespace {

TEST(FullDiskLong, FailuresAtEveryCallLoseNothing) {
  EXPECT_GE(expect_failures_lose_nothing("full_disk_long", 1), 400);
}

}  // namespace
}  // namespace plimsoll::testing
