// Two hundred kills at random moments.
#include <gtest/gtest.h>

#include "tests/kill/kill_run.h"

namespace plimsoll::testing {
namespace {

TEST(KillLong, TwoHundredKillsChangeNothing) {
  expect_kills_change_nothing("kill_long", 200, 2);
}

}  // namespace
}  // namespace plimsoll::testing
