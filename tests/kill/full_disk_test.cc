// ENOSPC and EIO at some of the calls with which a run changes its output folder.
#include <gtest/gtest.h>

#include "tests/kill/full_disk.h"

namespace plimsoll::testing {
namespace {

TEST(FullDisk, FailuresAtEveryFortyFirstCallLoseNothing) {
  EXPECT_GE(expect_failures_lose_nothing("full_disk", 41), 16);
}

}  // namespace
}  // namespace plimsoll::testing
