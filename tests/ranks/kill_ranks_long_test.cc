// Kills ranks of tiny runs 100 times, at other moments than kill_ranks_test.
#include <gtest/gtest.h>

#include "tests/ranks/kill_ranks.h"

namespace plimsoll::testing {
namespace {

TEST(KillRanksLong, AHundredKillsChangeNothing) {
  expect_rank_kills_change_nothing("kill_ranks_long", 100, 7);
}

}  // namespace
}  // namespace plimsoll::testing
