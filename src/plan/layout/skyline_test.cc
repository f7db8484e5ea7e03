#include "plan/layout/skyline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/philox.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(Skyline, FillsTheLowestValleyWithTheFirstThatFits) {
  // The first two buffers form a base over positions 0..3 and a tower on its left part, which leaves a valley on the right into which
  // only the buffer {2, 3} fits.
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
  // No buffer but the one over all positions is live at position 1. That buffer must still be placed on top of the higher of the two
  // others.
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

// A test case: buffers, the order of placement, and the number of bytes that are taken at the top at each position, which is larger at
// both ends than in the middle.
struct Case {
  std::vector<LiveBuffer> buffers;
  std::vector<uint32_t> order;
  std::vector<int64_t> hanging;
};

Case random_case(uint32_t seed) {
  const RandomSite site{.seed = seed, .step = 0, .site = 11};
  uint64_t element = 0;
  const auto draw = [&](uint32_t limit) { return philox_element(site, element++) % limit; };
  const uint32_t positions = 10 + draw(90);
  Case drawn;
  for (uint32_t i = 0; i < positions; ++i) {
    const uint32_t first = draw(positions);
    drawn.buffers.push_back({64 * draw(20), first, std::min(first + draw(30), positions - 1)});
  }
  drawn.order.resize(drawn.buffers.size());
  std::iota(drawn.order.begin(), drawn.order.end(), 0u);
  for (uint32_t p = 0; p < positions; ++p)
    drawn.hanging.push_back(64 * std::max<int64_t>(10 - int64_t{p}, int64_t{p} + 20 - int64_t{positions}));
  for (int64_t& bytes : drawn.hanging) bytes = std::max<int64_t>(bytes, 0);
  return drawn;
}

// Returns the smallest limit with which all buffers end below the bytes that are taken at the top.
int64_t end_below(const Case& drawn, const Placement& placement) {
  int64_t end = 0;
  for (size_t i = 0; i < drawn.buffers.size(); ++i) {
    const LiveBuffer& buffer = drawn.buffers[i];
    if (buffer.bytes == 0) continue;
    for (uint32_t p = buffer.first; p <= buffer.last; ++p)
      end = std::max(end, placement.offsets[i] + buffer.bytes + drawn.hanging[p]);
  }
  return end;
}

// The placement with a limit may return nothing only if a buffer would exceed its limit; otherwise it must equal the placement without a
// limit.
TEST(Skyline, GivesUpOnlyWhatEndsTooLate) {
  int64_t num_given_up = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Case drawn = random_case(seed);
    const Placement whole = fill_skyline(drawn.buffers, drawn.order);
    const Placement on_floor = fill_skyline(drawn.buffers, drawn.order, drawn.hanging);
    const int64_t end = end_below(drawn, whole);
    for (const int64_t most : {end, end - 1, end - 64, end - end / 10, end - end / 4}) {
      const auto below = fill_skyline_within(most, drawn.buffers, drawn.order, {}, drawn.hanging);
      ASSERT_TRUE(below ? below->offsets == whole.offsets : end > most) << seed;
      num_given_up += below ? 0 : 1;
    }
    for (const int64_t most : {on_floor.bytes, on_floor.bytes - 1, on_floor.bytes - on_floor.bytes / 4}) {
      const auto above = fill_skyline_within(most, drawn.buffers, drawn.order, drawn.hanging);
      ASSERT_TRUE(above ? above->offsets == on_floor.offsets : on_floor.bytes > most) << seed;
      num_given_up += above ? 0 : 1;
    }
  }
  EXPECT_GT(num_given_up, 300) << "too few cases to find a fault";
}

TEST(Skyline, AnOrderOfOtherBuffersIsOurFault) {
  const std::array<LiveBuffer, 2> buffers{{{64, 0, 1}, {128, 0, 1}}};
  EXPECT_THROW(fill_skyline(buffers, std::array<uint32_t, 1>{0}), Error);
}

}  // namespace
}  // namespace plimsoll
