#include "graph/passes/saved_transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace plimsoll {
namespace {

// Six ops of a forward pass that each save 10 bytes, which the forward pass does not read, and six ops of a backward pass that read them in
// reverse order. No other values exist.
struct SavingStep {
  std::vector<SavedValue> values;
  ActivationHeadroom room;

  SavingStep() {
    for (uint32_t k = 0; k < 6; ++k)
      values.push_back({.bytes = 10, .producer = k, .last_reader = k, .first_reader = 11 - k});
    for (const int64_t alive : {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1}) room.live_bytes.push_back(10 * alive);
  }

  using Saved = std::vector<std::tuple<bool, uint32_t, uint32_t>>;
  Saved transfers(const ActivationHeadroom& given) const {
    Saved list;
    for (const SavedTransfer& transfer : transfers_of_saved_values(values, 6, given))
      list.emplace_back(transfer.stays, transfer.out_ends_before, transfer.in_starts_before);
    return list;
  }

  // Returns the live bytes at each position with these transfers.
  std::vector<int64_t> live_bytes() const {
    std::vector<int64_t> live(12, 0);
    const auto add = [&](uint32_t from, uint32_t to) {
      for (uint32_t p = from; p < to; ++p) live[p] += 10;
    };
    const Saved list = transfers(room);
    for (size_t k = 0; k < values.size(); ++k) {
      const auto& [stays, gone, back] = list[k];
      add(values[k].producer, stays ? 6 : std::max(gone, values[k].last_reader + 1));
      add(stays ? 6 : std::min(back, values[k].first_reader), values[k].first_reader + 1);
    }
    return live;
  }
};

using Saved = SavingStep::Saved;

TEST(SavedSchedule, TwoAheadIfMemoryIsUnknown) {
  EXPECT_EQ(SavingStep().transfers({}),
            (Saved{{false, 3, 10}, {false, 4, 9}, {false, 5, 8}, {false, 6, 7}, {true, 6, 6}, {true, 6, 6}}));
}

TEST(SavedSchedule, AsManyStayAsFit) {
  SavingStep step;
  step.room.most_bytes = 60;
  for (const auto& transfer : step.transfers(step.room)) EXPECT_TRUE(std::get<0>(transfer));
  step.room.most_bytes = 40;
  EXPECT_EQ(step.transfers(step.room),
            (Saved{{false, 3, 10}, {false, 4, 9}, {true, 5, 8}, {true, 6, 7}, {true, 6, 6}, {true, 6, 6}}));
}

TEST(SavedSchedule, CopiesUseTheRemainingMemory) {
  SavingStep step;
  step.room.most_bytes = 40;
  step.room.most_ahead = 4;
  // Two values are copied. With this memory limit, the copy of each to the host may end one op later than in the schedule with the least
  // memory, and the copy of each back to the device starts two ops earlier.
  EXPECT_EQ(step.transfers(step.room),
            (Saved{{false, 4, 8}, {false, 5, 7}, {true, 5, 8}, {true, 6, 7}, {true, 6, 6}, {true, 6, 6}}));
}

// Values that are not saved take memory at the end of the forward pass and at the start of the backward pass, so that fewer saved values
// can stay on the device. The copies use the memory that is free before and after that.
TEST(SavedSchedule, TheLastMadeAndTheFirstReadComeFirst) {
  SavingStep step;
  step.room.most_ahead = 6;
  step.room.live_bytes[5] += 20;
  step.room.live_bytes[6] += 20;
  step.room.most_bytes = 50;
  for (const int64_t bytes : step.live_bytes()) EXPECT_LE(bytes, 50);
  EXPECT_EQ(step.transfers(step.room),
            (Saved{{false, 5, 7}, {false, 5, 7}, {false, 5, 7}, {true, 6, 7}, {true, 6, 6}, {true, 6, 6}}));
}

// With a higher memory limit, at least as many values stay on the device.
TEST(SavedSchedule, NeverExceedsTheLimit) {
  SavingStep step;
  size_t stayed = 0;
  for (int64_t most = 30; most <= 60; most += 5) {
    for (const size_t ahead : {2u, 3u, 8u}) {
      step.room.most_bytes = most;
      step.room.most_ahead = ahead;
      for (const int64_t bytes : step.live_bytes()) EXPECT_LE(bytes, most);
      size_t stay = 0;
      for (const auto& transfer : step.transfers(step.room)) stay += std::get<0>(transfer) ? 1 : 0;
      EXPECT_GE(stay, stayed);
      stayed = stay;
    }
  }
  EXPECT_EQ(stayed, 6u);
}

// If the forward pass reads a value again later, the copy of the value to the host may last until that read without additional memory,
// because the value is live until then anyway.
TEST(SavedSchedule, WaitingCostsNothingWhileAValueIsRead) {
  SavingStep step;
  step.room = {
      .live_bytes = {30, 30, 30, 30, 30, 60, 60, 60, 60, 60, 60, 60}, .most_bytes = 30, .most_ahead = 4};
  step.values.resize(5);
  step.values[0].last_reader = 4;
  EXPECT_EQ(std::get<1>(step.transfers(step.room)[0]), 5u);
}

}  // namespace
}  // namespace plimsoll
