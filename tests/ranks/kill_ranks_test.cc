// Kills ranks of tiny runs 20 times in about a minute. kill_ranks_long_test does so 100 times.
#include "tests/ranks/kill_ranks.h"

#include <gtest/gtest.h>

namespace plimsoll::testing {
namespace {

TEST(KillRanks, TwentyKillsChangeNothing) {
  expect_rank_kills_change_nothing("kill_ranks", 20, 20261127);
}

}  // namespace
}  // namespace plimsoll::testing
