#include "graph/passes/transfer_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll {
namespace {

// A step with six ops of a backward pass, each of which frees bytes, and three updates after them.
struct Step {
  std::vector<Segment> segments = std::vector<Segment>(9, Segment::kBackward);
  MemoryHeadroom room{.live_bytes = {100, 80, 60, 40, 20, 0, 0, 0, 0},
                      .op_ms = std::vector<double>(9, 1.0),
                      .most_bytes = 100,
                      .link_bytes_per_ms = 30};
  std::vector<MovedUpdate> updates;

  Step() {
    for (uint32_t op = 6; op < 9; ++op) {
      segments[op] = Segment::kOptimizer;
      updates.push_back({.op = op, .bytes = 30, .follows = op > 6});
    }
  }

  std::vector<std::pair<uint32_t, size_t>> early() const {
    return pairs(transfers_as_early_as_possible(updates, segments, room).transfers);
  }

  static std::vector<std::pair<uint32_t, size_t>> pairs(const std::vector<StateTransfer>& transfers) {
    std::vector<std::pair<uint32_t, size_t>> list;
    list.reserve(transfers.size());
    for (const StateTransfer& transfer : transfers) list.emplace_back(transfer.before, transfer.ended);
    return list;
  }
};

using List = std::vector<std::pair<uint32_t, size_t>>;

TEST(TransferSchedule, StartAsSoonAsBytesAreFree) {
  EXPECT_EQ(Step().early(), (List{{2, 0}, {3, 0}, {5, 0}}));
}

TEST(TransferSchedule, LeaveMemoryForLaterOps) {
  Step step;
  // Raises the use of memory at the last op of the backward pass, so that the states of only one update fit in addition.
  step.room.live_bytes[5] = 70;
  EXPECT_EQ(step.early(), (List{{2, 0}, {6, 0}, {6, 0}}));
}

TEST(TransferSchedule, EndWithTheBackwardPass) {
  Step step;
  step.room.link_bytes_per_ms = 10;
  EXPECT_EQ(step.early(), (List{{2, 0}, {6, 0}, {6, 0}}));
}

// Before the first update, nothing is written to the disk, so reading 30 bytes takes 2 ms, instead of 3 ms during the updates. The states
// of two updates can therefore be read during the last four ops of the backward pass, which take 1 ms each.
TEST(TransferSchedule, ReadFromADiskAloneBeforeTheFirstUpdate) {
  Step step;
  step.room.is_disk = true;
  step.room.link_bytes_per_ms = 10;
  step.room.in_alone_bytes_per_ms = 15;
  EXPECT_EQ(step.early(), (List{{2, 0}, {3, 0}, {6, 0}}));
}

TEST(TransferSchedule, StartAtTheFirstAllowedOp) {
  Step step;
  step.room.first = 6;
  EXPECT_EQ(step.early(), (List{{6, 0}, {6, 0}, {6, 0}}));
}

// If only the states of two updates fit, the schedule that copies as early as possible equals the one with minimum memory.
TEST(TransferSchedule, TakeTheBytesOfStatesThatWereCopiedBack) {
  Step step;
  step.room.live_bytes = {60, 60, 60, 60, 60, 60, 0, 0, 0};
  step.room.most_bytes = 60;
  EXPECT_EQ(step.early(), (List{{6, 0}, {6, 0}, {7, 1}}));
  EXPECT_EQ(step.early(), Step::pairs(transfers_with_minimum_memory(step.updates)));
}

// If other ops run between updates, states are copied back to the host during these ops, so that their memory is free when the next states
// need it.
TEST(TransferSchedule, RunDuringTheOpsBetweenUpdates) {
  Step step;
  step.segments.assign(9, Segment::kBackward);
  step.updates = {{.op = 0, .segment = Segment::kBackward, .bytes = 30},
                  {.op = 4, .segment = Segment::kBackward, .bytes = 30},
                  {.op = 8, .segment = Segment::kBackward, .bytes = 30}};
  step.room.live_bytes.assign(9, 0);
  step.room.most_bytes = 60;
  // The states of two updates fit at a time. The first update ends at 1 ms and its states are back on the host at 3 ms. From then on, the
  // states of the third update can be copied into the same memory.
  EXPECT_EQ(step.early(), (List{{0, 0}, {0, 0}, {2, 1}}));
  EXPECT_EQ(Step::pairs(transfers_with_minimum_memory(step.updates)), (List{{0, 0}, {4, 0}, {8, 1}}));
}

// A step with three ops of a forward pass, three of a backward pass and three updates.
struct WholeStep : Step {
  WholeStep() {
    std::fill(segments.begin(), segments.begin() + 3, Segment::kForward);
    room.live_bytes = {0, 50, 100, 100, 50, 0, 0, 0, 0};
    room.first = 3;
    room.may_defer = true;
  }
};

// The states of the last update are copied to the host during the next forward pass, and the copy ends before an op needs their memory.
// Without this deferral, the step would wait for the copy and end one op later. Deferring the copies of more updates would not make the
// step shorter.
TEST(TransferSchedule, TheLastAreDeferredToTheNextForwardPass) {
  const WholeStep step;
  const TransferSchedule traffic = transfers_as_early_as_possible(step.updates, step.segments, step.room);
  EXPECT_EQ(traffic.deferred, 1u);
  ASSERT_EQ(traffic.releases.size(), 1u);
  EXPECT_EQ(traffic.releases[0].before, 2u);
  EXPECT_EQ(traffic.releases[0].ended, 1u);
}

TEST(TransferSchedule, NoneAreDeferredIfForbidden) {
  WholeStep step;
  step.room.may_defer = false;
  EXPECT_EQ(transfers_as_early_as_possible(step.updates, step.segments, step.room).deferred, 0u);
}

// States that are copied back in the next step need their memory until the step ends, so no copy is deferred if there is not enough memory.
TEST(TransferSchedule, NoneAreDeferredIfTheyDoNotFit) {
  WholeStep step;
  step.room.live_bytes = {0, 0, 0, 100, 100, 80, 80, 80, 80};
  EXPECT_EQ(transfers_as_early_as_possible(step.updates, step.segments, step.room).deferred, 0u);
}

// The states of the fourth update are read from the disk into the memory of the states of the first update. The states of the first update
// of a later segment are not read during the updates of the previous segment. Other ops between two updates of a segment do not delay the
// transfers.
TEST(TransferSchedule, ThreeUpdatesAtATimeOnADisk) {
  std::vector<MovedUpdate> updates;
  for (const uint32_t op : {3u, 5u, 8u, 9u, 12u})
    updates.push_back({.op = op, .segment = op < 12 ? Segment::kBackward : Segment::kOptimizer, .bytes = 30});
  EXPECT_EQ(Step::pairs(transfers_with_disk(updates)), (List{{3, 0}, {3, 0}, {5, 0}, {8, 1}, {12, 2}}));
}

// With little free memory, the schedule with early copies would make each copy to the device wait until all earlier states are back on the
// host. The schedule with minimum memory is faster and is used instead.
TEST(TransferSchedule, UseMinimumMemoryIfThatIsFaster) {
  Step step;
  step.room.most_bytes = 0;
  EXPECT_EQ(step.early(), Step::pairs(transfers_with_minimum_memory(step.updates)));
  step.room.is_disk = true;
  EXPECT_EQ(step.early(), Step::pairs(transfers_with_disk(step.updates)));
}

}  // namespace
}  // namespace plimsoll
