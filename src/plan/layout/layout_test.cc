#include "plan/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/philox.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Checks that buffers which are live at the same time do not overlap, that every offset is aligned, and that the lower bound does not
// exceed the result.
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

// Other buffers occupy the top of the region at the first and at the last position, so the buffer that is live at all positions must be
// placed at the bottom.
TEST(Layout, LeavesSpaceForBuffersAtTheTop) {
  const std::vector<LiveBuffer> buffers{{64, 1, 2}, {64, 0, 3}, {128, 1, 1}};
  const std::array<int64_t, 4> hanging{192, 0, 64, 64};
  const Layout layout = assign_offsets(buffers, 64, hanging);
  expect_valid(buffers, layout, 64);
  EXPECT_EQ(layout.lower_bound_bytes, 256);
  EXPECT_EQ(layout.bytes, 256);
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (uint32_t p = buffers[i].first; p <= buffers[i].last; ++p) {
      EXPECT_LE(layout.offsets[i] + buffers[i].bytes + hanging[p], layout.bytes);
    }
  }
  EXPECT_EQ(assign_offsets(std::span(buffers).first(1), 64, hanging).bytes, 192);
}

TEST(Layout, SeparateBuffersShareNothing) {
  const std::vector<LiveBuffer> buffers{{60, 0, 1}, {64, 2, 3}, {65, 1, 2}};
  const Layout layout = separate_offsets(buffers, 64);
  expect_valid(buffers, layout, 64);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 64, 128}));
  EXPECT_EQ(layout.bytes, 256);
  EXPECT_EQ(layout.lower_bound_bytes, 192);
  EXPECT_EQ(separate_offsets({}, 64).bytes, 0);
}

// A random generator for one case, whose numbers do not depend on the standard library.
class Draw {
 public:
  Draw(uint32_t seed, uint32_t site) : site_({.seed = seed, .step = 0, .site = site}) {}
  uint32_t operator()(uint32_t limit) { return philox_element(site_, element_++) % limit; }
  int64_t bytes() {
    const int64_t power = int64_t{64} << (*this)(12);
    return power + 64 * (*this)(8);
  }

 private:
  RandomSite site_;
  uint64_t element_ = 0;
};

// Returns buffers with random lifetimes; a quarter of the lifetimes are long.
std::vector<LiveBuffer> random_program(uint32_t seed) {
  Draw draw(seed, 9);
  const uint32_t positions = 20 + draw(200);
  std::vector<LiveBuffer> buffers;
  for (uint32_t i = 0; i < positions; ++i) {
    const uint32_t first = draw(positions);
    const uint32_t length = draw(4) == 0 ? draw(positions) : draw(6);
    buffers.push_back({draw.bytes(), first, std::min(first + length, positions - 1)});
  }
  return buffers;
}

// Returns the buffers of a random graph and its backward pass. Every op reads one to three earlier outputs, most of them recent. Half of
// the backward ops read what the forward op wrote. Each backward op writes gradients that the next op reads, and some write gradients
// that stay live to the end, like those of parameters.
std::vector<LiveBuffer> random_training_graph(uint32_t seed) {
  Draw draw(seed, 10);
  const uint32_t ops = 10 + draw(150);
  std::vector<LiveBuffer> buffers;
  for (uint32_t i = 0; i < ops; ++i) {
    const uint32_t backward = 2 * ops - 1 - i;
    for (uint32_t reads = i == 0 ? 0 : 1 + draw(3); reads > 0; --reads) {
      LiveBuffer& input = buffers[i - 1 - (draw(3) == 0 ? draw(i) : draw(std::min<uint32_t>(i, 3)))];
      input.last = std::max(input.last, i);
    }
    buffers.push_back({draw.bytes(), i, draw(2) == 0 ? backward : i});
  }
  for (uint32_t i = 0; i < ops; ++i) {
    const uint32_t backward = 2 * ops - 1 - i;
    const uint32_t reader = backward + 1 + draw(4);
    buffers.push_back({draw.bytes(), backward, std::min(reader, 2 * ops)});
    if (draw(3) == 0) buffers.push_back({draw.bytes(), backward, 2 * ops});
  }
  return buffers;
}

struct Ratios {
  double at_90th_percentile = 0;
  double largest = 0;
};

Ratios lay_out_all(std::vector<LiveBuffer> (*make)(uint32_t), uint32_t cases) {
  std::vector<double> ratios;
  for (uint32_t seed = 0; seed < cases; ++seed) {
    const std::vector<LiveBuffer> buffers = make(seed);
    const Layout layout = assign_offsets(buffers, 64);
    expect_valid(buffers, layout, 64);
    ratios.push_back(static_cast<double>(layout.bytes) / static_cast<double>(layout.lower_bound_bytes));
  }
  std::sort(ratios.begin(), ratios.end());
  return {.at_90th_percentile = ratios[ratios.size() * 9 / 10], .largest = ratios.back()};
}

// The project requires a result of at most 1.10 times the lower bound at the 90th percentile. This test demands more, because the search
// usually stops within 0.1 % of the lower bound, and a worse result would indicate a fault.
TEST(Layout, RandomProgramsAreNearTheLowerBound) {
  const Ratios ratios = lay_out_all(random_program, 500);
  EXPECT_LE(ratios.at_90th_percentile, 1.002);
  EXPECT_LE(ratios.largest, 1.05);
}

TEST(Layout, RandomTrainingGraphsAreNearTheLowerBound) {
  const Ratios ratios = lay_out_all(random_training_graph, 500);
  EXPECT_LE(ratios.at_90th_percentile, 1.002);
  EXPECT_LE(ratios.largest, 1.05);
}

// Lays out buffers like those of training. The lifetimes of values that are saved for the backward pass are nested; gradients that live to
// the end can use the bytes that the saved values no longer need.
TEST(Layout, NestedLifetimesAndGradientsThatStayLoseNothing) {
  constexpr uint32_t kLayers = 40;
  std::vector<LiveBuffer> buffers;
  for (uint32_t i = 0; i < kLayers; ++i) {
    const uint32_t backward = 2 * kLayers - 1 - i;
    buffers.push_back({640, i, backward});
    buffers.push_back({512, backward, 2 * kLayers});
    buffers.push_back({256, backward, std::min(backward + 1, 2 * kLayers)});
  }
  const Layout layout = assign_offsets(buffers, 64);
  expect_valid(buffers, layout, 64);
  EXPECT_LE(layout.bytes, layout.lower_bound_bytes + layout.lower_bound_bytes / 1000);
}

TEST(Layout, TheSameBuffersGetTheSameOffsets) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<LiveBuffer> buffers = random_program(seed);
    EXPECT_EQ(assign_offsets(buffers, 64).offsets, assign_offsets(buffers, 64).offsets);
  }
}

TEST(Layout, BuffersWithoutBytesAndWithOddSizesAreTaken) {
  const std::vector<LiveBuffer> buffers{{0, 0, 5}, {1, 2, 3}, {65, 0, 9}, {0, 3, 3}, {127, 4, 4}};
  const Layout layout = assign_offsets(buffers, 64);
  expect_valid(buffers, layout, 64);
  EXPECT_EQ(layout.bytes, layout.lower_bound_bytes);
  EXPECT_EQ(assign_offsets(std::vector<LiveBuffer>{{0, 0, 0}}, 64).bytes, 0);
}

TEST(Layout, ABufferThatEndsBeforeItBeginsIsOurFault) {
  EXPECT_THROW(assign_offsets(std::vector<LiveBuffer>{{64, 3, 2}}, 64), Error);
  EXPECT_THROW(assign_offsets(std::vector<LiveBuffer>{{-64, 0, 2}}, 64), Error);
}

}  // namespace
}  // namespace plimsoll
