#include "plan/layout/skyline.h"

#include <gtest/gtest.h>

#include <array>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(Skyline, FillsTheLowestValleyWithTheFirstThatFits) {
  // Positions 0..3: a wide base, a tower on the left, then a valley on the right that only {2, 3} fits into.
  const std::array<LiveBuffer, 4> buffers{{{64, 0, 3}, {128, 0, 1}, {64, 0, 3}, {64, 2, 3}}};
  const std::array<uint32_t, 4> order{0, 1, 3, 2};
  const Placement placement = fill_skyline(buffers, order);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{0, 64, 192, 64}));
  EXPECT_EQ(placement.bytes, 256);
}

TEST(Skyline, AnOrderDecidesWhatStandsBelow) {
  const std::array<LiveBuffer, 2> buffers{{{64, 0, 1}, {128, 0, 1}}};
  EXPECT_EQ(fill_skyline(buffers, std::array<uint32_t, 2>{0, 1}).offsets, (std::vector<int64_t>{0, 64}));
  EXPECT_EQ(fill_skyline(buffers, std::array<uint32_t, 2>{1, 0}).offsets, (std::vector<int64_t>{128, 0}));
}

TEST(Skyline, PositionsThatNothingUsesAreNoWall) {
  // Nothing is live at 1: the buffer over all positions still comes to stand on the higher of the two others.
  const std::array<LiveBuffer, 3> buffers{{{64, 0, 0}, {192, 2, 2}, {64, 0, 2}}};
  const Placement placement = fill_skyline(buffers, std::array<uint32_t, 3>{0, 1, 2});
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{0, 0, 192}));
  EXPECT_EQ(placement.bytes, 256);
}

TEST(Skyline, StartsOnAFloor) {
  const std::array<int64_t, 4> floor{128, 64, 0, 64};
  const std::array<LiveBuffer, 3> buffers{{{64, 0, 3}, {64, 2, 2}, {64, 1, 2}}};
  const Placement placement = fill_skyline(buffers, std::array<uint32_t, 3>{0, 1, 2}, floor);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{128, 0, 64}));
  EXPECT_EQ(placement.bytes, 192);
  EXPECT_EQ(fill_skyline(std::span(buffers).last(1), std::array<uint32_t, 1>{0}, floor).bytes, 128);
}

TEST(Skyline, AnOrderOfOtherBuffersIsOurFault) {
  const std::array<LiveBuffer, 2> buffers{{{64, 0, 1}, {128, 0, 1}}};
  EXPECT_THROW(fill_skyline(buffers, std::array<uint32_t, 1>{0}), Error);
}

}  // namespace
}  // namespace plimsoll
