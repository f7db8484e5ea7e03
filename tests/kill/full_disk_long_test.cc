// Makes every call with which a run changes its output folder fail alone, with ENOSPC and with EIO. Further runs have a permanent failure
// instead: every seventh call is made the first of the calls that fail. The cases are independent: GTEST_TOTAL_SHARDS distributes them over
// processes.
#include <gtest/gtest.h>

#include "tests/kill/full_disk.h"

namespace plimsoll::testing {
namespace {

constexpr int kParts = 4;

class FullDiskLong : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(FullDiskLong, FailuresAtEveryCallLoseNothing) {
  const auto [kind, part] = GetParam();
  const int64_t spacing = disk_failure_lasts(kind) ? 7 : 1;
  EXPECT_GE(expect_failures_lose_nothing("full_disk_long_" + std::to_string(part), kind, part * spacing,
                                         kParts * spacing),
            disk_failure_lasts(kind) ? 6 : 42);
}

INSTANTIATE_TEST_SUITE_P(All, FullDiskLong,
                         ::testing::Combine(::testing::Range(0, kNumDiskFailures),
                                            ::testing::Range(0, kParts)));

}  // namespace
}  // namespace plimsoll::testing
