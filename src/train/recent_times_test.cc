#include "train/recent_times.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

TEST(RecentTimes, TheMedianIsKnownFromTheFifthTimeOn) {
  RecentTimes times;
  for (int i = 0; i < 4; ++i) times.add(1000);
  EXPECT_FALSE(times.median());
  EXPECT_FALSE(longest_wait(times));
  times.add(1000);
  EXPECT_EQ(times.median(), 1000.0);
}

// The median must ignore the slower first steps, and a single step that waits for something else.
TEST(RecentTimes, TheMedianForgetsOldTimesAndIgnoresSingleOnes) {
  RecentTimes times;
  for (int i = 0; i < 15; ++i) times.add(9000);
  for (int i = 0; i < 15; ++i) times.add(i == 3 ? 100'000 : 3000);
  EXPECT_EQ(times.median(), 3000.0);
}

TEST(RecentTimes, TheLongestWaitIsTenTimesTheMedianAndAtLeastTenSeconds) {
  RecentTimes times;
  for (int i = 0; i < 5; ++i) times.add(20);
  EXPECT_EQ(longest_wait(times), milliseconds(10'000));
  for (int i = 0; i < 15; ++i) times.add(2500);
  EXPECT_EQ(longest_wait(times), milliseconds(25'000));
}

}  // namespace
}  // namespace plimsoll
