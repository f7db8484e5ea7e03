// Turns of states whose updates stand in the forward pass, in numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/passes/state_turns.h"

namespace plimsoll {
namespace {

// A forward pass of four updates, each before its op, whose gradients die and whose activations are born; a
// backward pass; a norm.
struct LateStep {
  std::vector<Segment> segments;
  StepRoom room{.live_bytes = {40, 40, 45, 45, 50, 50, 55, 55, 60, 55, 50, 45, 40},
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

  std::optional<StateTurns> turns() const { return late_turns(updates, segments, room); }
};

// Bytes at each position that states have by their turns; what has gone home is free where somebody waits for
// it, or at the end of the forward pass.
std::vector<int64_t> held_bytes(const LateStep& step, const StateTurns& turns) {
  const size_t n = step.segments.size();
  std::vector<int64_t> held(n, 0);
  const auto end = [&](size_t k) {
    uint32_t last = 7;
    const auto end_before = [&](uint32_t position, size_t ended) {
      if (ended > k) last = std::min(last, position - 1);
    };
    for (const Release& release : turns.releases) end_before(release.before, release.ended);
    for (size_t j = turns.early; j < turns.turns.size(); ++j)
      end_before(turns.turns[j].before, turns.turns[j].ended);
    return last;
  };
  for (size_t k = 0; k < turns.turns.size(); ++k) {
    const uint32_t first = turns.turns[k].before;
    for (uint32_t p = 0; p < n; ++p) {
      const bool is_held = k < turns.early ? p >= first || p <= end(k) : p >= first && p <= end(k);
      held[p] += is_held ? step.updates[k].bytes : 0;
    }
  }
  return held;
}

TEST(LateTurns, TheFirstComeInTheStepBeforeTheLastOfThemFirst) {
  const LateStep step;
  const std::optional<StateTurns> turns = step.turns();
  ASSERT_TRUE(turns);
  EXPECT_GT(turns->early, 0u);
  EXPECT_EQ(turns->carried, 0u);
  for (size_t k = 0; k < turns->early; ++k) {
    EXPECT_GE(turns->turns[k].before, 8u);
    EXPECT_EQ(turns->turns[k].ended, 0u);
    EXPECT_LE(turns->turns[k].before, turns->turns[k == 0 ? 0 : k - 1].before);
  }
  for (size_t k = turns->early; k < 4; ++k) EXPECT_LE(turns->turns[k].before, step.updates[k].op);
  std::vector<size_t> order(4);
  for (size_t i = 0; i < 4; ++i) order[i] = i < 4 - turns->early ? turns->early + i : 3 - i;
  EXPECT_EQ(order_of_copies(*turns), order);
}

TEST(LateTurns, NeverTakeMoreThanThereIs) {
  LateStep step;
  int found = 0;
  for (const int64_t most : {70, 75, 80, 85, 90, 100, 120, 140, 200}) {
    step.room.most_bytes = most;
    const std::optional<StateTurns> turns = step.turns();
    if (!turns) continue;
    ++found;
    const std::vector<int64_t> held = held_bytes(step, *turns);
    for (size_t p = 0; p < held.size(); ++p)
      EXPECT_LE(held[p] + step.room.live_bytes[p], most) << "at " << p << " of " << most;
  }
  EXPECT_GT(found, 5);
}

// All fit at once: they come early, as many as the end of the step has time for.
TEST(LateTurns, AreThereWhenTheStepEnds) {
  LateStep step;
  step.room.most_bytes = 1000;
  // Of 0.8 ms each, and a quarter more to be there for sure: four in the 4 ms of the backward pass.
  step.room.link_bytes_per_ms = 25;
  EXPECT_EQ(step.turns()->early, 4u);
  step.room.link_bytes_per_ms = 24;
  EXPECT_EQ(step.turns()->early, 3u);
  // Of 1.6 ms: two.
  step.room.link_bytes_per_ms = 12.5;
  EXPECT_EQ(step.turns()->early, 2u);
  step.room.link_bytes_per_ms = 12;
  EXPECT_EQ(step.turns()->early, 1u);
}

TEST(LateTurns, AreNoneWithoutRoomForOneUpdate) {
  LateStep step;
  step.room.most_bytes = 65;
  EXPECT_FALSE(step.turns());
}

}  // namespace
}  // namespace plimsoll
