#include "plan/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"

namespace plimsoll {
namespace {

// No two buffers that are live together overlap, every offset is aligned, the bound is below the result.
void expect_valid(const std::vector<LiveBuffer>& buffers, const Layout& layout, int64_t alignment) {
  ASSERT_EQ(layout.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_EQ(layout.offsets[i] % alignment, 0);
    ASSERT_LE(layout.offsets[i] + buffers[i].bytes, layout.bytes);
    for (size_t k = 0; k < i; ++k) {
      if (buffers[i].first > buffers[k].last || buffers[k].first > buffers[i].last) continue;
      const bool apart = layout.offsets[i] + buffers[i].bytes <= layout.offsets[k] ||
                         layout.offsets[k] + buffers[k].bytes <= layout.offsets[i];
      ASSERT_TRUE(apart || buffers[i].bytes == 0 || buffers[k].bytes == 0) << i << " and " << k;
    }
  }
  EXPECT_GE(layout.bytes, layout.lower_bound_bytes);
}

TEST(Layout, EmptyAndSingle) {
  EXPECT_EQ(assign_offsets({}, 64).bytes, 0);
  const std::vector<LiveBuffer> one{{100, 0, 3}};
  const Layout layout = assign_offsets(one, 64);
  EXPECT_EQ(layout.bytes, 128);
  EXPECT_EQ(layout.lower_bound_bytes, 128);
}

TEST(Layout, BuffersThatAreNotLiveTogetherShareBytes) {
  const std::vector<LiveBuffer> buffers{{64, 0, 1}, {64, 2, 3}, {64, 1, 2}};
  const Layout layout = assign_offsets(buffers, 64);
  expect_valid(buffers, layout, 64);
  EXPECT_EQ(layout.bytes, 128);
}

// 500 random programs: valid always, and at the 90th percentile within 1.10 of the lower bound.
TEST(Layout, RandomProgramsStayNearTheLowerBound) {
  std::vector<double> ratios;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    uint64_t element = 0;
    const auto draw = [&](uint32_t limit) {
      return philox_element({.seed = seed, .step = 0, .site = 9}, element++) % limit;
    };
    const uint32_t positions = 20 + draw(200);
    std::vector<LiveBuffer> buffers;
    for (uint32_t i = 0; i < positions; ++i) {
      const uint32_t first = draw(positions);
      const uint32_t length = draw(4) == 0 ? draw(positions) : draw(6);
      const int64_t bytes = int64_t{64} << draw(12);
      buffers.push_back({bytes + 64 * draw(8), first, std::min(first + length, positions - 1)});
    }
    const Layout layout = assign_offsets(buffers, 64);
    expect_valid(buffers, layout, 64);
    ratios.push_back(static_cast<double>(layout.bytes) / static_cast<double>(layout.lower_bound_bytes));
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_LE(ratios[ratios.size() * 9 / 10], 1.10);
}

}  // namespace
}  // namespace plimsoll
