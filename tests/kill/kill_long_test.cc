// Kills runs two hundred times at random moments. The cases are independent: GTEST_TOTAL_SHARDS distributes them over
// processes.
#include <gtest/gtest.h>

#include "tests/kill/kill_run.h"

namespace plimsoll::testing {
namespace {

constexpr int kCases = 20;
constexpr int kKills = 200;

class KillLong : public ::testing::TestWithParam<int> {};

TEST_P(KillLong, TwoHundredKillsChangeNothing) {
  const int number = GetParam();
  expect_kills_change_nothing("kill_long_" + std::to_string(number), kKills / kCases,
                              2 + static_cast<uint64_t>(number));
}

INSTANTIATE_TEST_SUITE_P(All, KillLong, ::testing::Range(0, kCases));

}  // namespace
}  // namespace plimsoll::testing
