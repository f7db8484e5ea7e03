// Tests the transfer schedule for updates in the forward pass, with steps that are given as numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/passes/transfer_schedule.h"

namespace plimsoll {
namespace {

// A step with a forward pass of four updates, each followed by an op, and then a backward pass and a norm. During the
// forward pass, the memory of gradients becomes free while activations are produced.
struct LateStep {
  std::vector<Segment> segments;
  MemoryHeadroom room{.live_bytes = {40, 40, 45, 45, 50, 50, 55, 55, 60, 55, 50, 45, 40},
                      .op_ms = {0.1, 1, 0.1, 1, 0.1, 1, 0.1, 1, 1, 1, 1, 1, 0.5},
                      .most_bytes = 100,
                      .link_bytes_per_ms = 20};
  std::vector<MovedUpdate> updates;

  LateStep() {
    segments.assign(13, Segment::kBackward);
    std::fill(segments.begin(), segments.begin() + 8, Segment::kForward);
    segments.back() = Segment::kOptimizer;
    for (uint32_t op = 0; op < 8; op += 2)
      updates.push_back({.op = op, .segment = Segment::kForward, .bytes = 20});
  }

  std::optional<TransferSchedule> transfers() const {
    return transfers_for_forward_updates(updates, segments, room);
  }
};

// Returns the bytes that states take at each position. The memory of states that were copied back is free from the op that waits for the
// copy, or at the end of the forward pass.
std::vector<int64_t> held_bytes(const LateStep& step, const TransferSchedule& transfers) {
  const size_t n = step.segments.size();
  std::vector<int64_t> held(n, 0);
  const auto end = [&](size_t k) {
    uint32_t last = 7;
    const auto end_before = [&](uint32_t position, size_t ended) {
      if (ended > k) last = std::min(last, position - 1);
    };
    for (const Release& release : transfers.releases) end_before(release.before, release.ended);
    for (size_t j = transfers.prefetched; j < transfers.transfers.size(); ++j)
      end_before(transfers.transfers[j].before, transfers.transfers[j].ended);
    return last;
  };
  for (size_t k = 0; k < transfers.transfers.size(); ++k) {
    const uint32_t first = transfers.transfers[k].before;
    for (uint32_t p = 0; p < n; ++p) {
      const bool is_held = k < transfers.prefetched ? p >= first || p <= end(k) : p >= first && p <= end(k);
      held[p] += is_held ? step.updates[k].bytes : 0;
    }
  }
  return held;
}

TEST(ForwardSchedule, TheFirstArePrefetchedInReverseOrder) {
  const LateStep step;
  const std::optional<TransferSchedule> transfers = step.transfers();
  ASSERT_TRUE(transfers);
  EXPECT_GT(transfers->prefetched, 0u);
  EXPECT_EQ(transfers->deferred, 0u);
  for (size_t k = 0; k < transfers->prefetched; ++k) {
    EXPECT_GE(transfers->transfers[k].before, 8u);
    EXPECT_EQ(transfers->transfers[k].ended, 0u);
    EXPECT_LE(transfers->transfers[k].before, transfers->transfers[k == 0 ? 0 : k - 1].before);
  }
  for (size_t k = transfers->prefetched; k < 4; ++k)
    EXPECT_LE(transfers->transfers[k].before, step.updates[k].op);
  std::vector<size_t> order(4);
  for (size_t i = 0; i < 4; ++i) order[i] = i < 4 - transfers->prefetched ? transfers->prefetched + i : 3 - i;
  EXPECT_EQ(order_of_copies(*transfers), order);
}

TEST(ForwardSchedule, NeverExceedsTheLimit) {
  LateStep step;
  int found = 0;
  for (const int64_t most : {70, 75, 80, 85, 90, 100, 120, 140, 200}) {
    step.room.most_bytes = most;
    const std::optional<TransferSchedule> transfers = step.transfers();
    if (!transfers) continue;
    ++found;
    const std::vector<int64_t> held = held_bytes(step, *transfers);
    for (size_t p = 0; p < held.size(); ++p)
      EXPECT_LE(held[p] + step.room.live_bytes[p], most) << "at " << p << " of " << most;
  }
  EXPECT_GT(found, 5);
}

// The states of all updates fit at the same time. The number of prefetched states is limited by the time between the forward pass and the
// end of the step, in which they are copied.
TEST(ForwardSchedule, PrefetchesEndWithTheStep) {
  LateStep step;
  step.room.most_bytes = 1000;
  // Each copy takes 0.8 ms, plus a quarter as a margin: four fit into the 4 ms of the backward pass.
  step.room.link_bytes_per_ms = 25;
  EXPECT_EQ(step.transfers()->prefetched, 4u);
  step.room.link_bytes_per_ms = 24;
  EXPECT_EQ(step.transfers()->prefetched, 3u);
  // At half the rate each copy takes 1.6 ms plus the margin, so only two fit.
  step.room.link_bytes_per_ms = 12.5;
  EXPECT_EQ(step.transfers()->prefetched, 2u);
  step.room.link_bytes_per_ms = 12;
  EXPECT_EQ(step.transfers()->prefetched, 1u);
}

TEST(ForwardSchedule, NoScheduleIfOneUpdateDoesNotFit) {
  LateStep step;
  step.room.most_bytes = 65;
  EXPECT_FALSE(step.transfers());
}

}  // namespace
}  // namespace plimsoll
