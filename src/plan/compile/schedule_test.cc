#include "plan/compile/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll {
namespace {

TEST(Schedule, AccumulatesMicroBatchesAndThenUpdatesOnce) {
  const std::vector<ScheduledRun> expected = {{"train", Segment::kForward, 0},
                                              {"train", Segment::kBackward, 0},
                                              {"train", Segment::kForward, 1},
                                              {"train", Segment::kBackward, 1},
                                              {"train", Segment::kOptimizer, -1}};
  EXPECT_EQ(all_runs(step_schedule(false), 2), expected);
}

TEST(Schedule, UpdatesInTheBackwardPassAfterTheLearningRateIsKnown) {
  const std::vector<ScheduledRun> expected = {
      {"train", Segment::kForward, 0}, {"train", Segment::kBackward, -1}, {"train", Segment::kOptimizer, -1}};
  EXPECT_EQ(all_runs(step_schedule(true), 1), expected);
}

// Tests the order of Megatron's one-forward-one-backward schedule, in which stage s of S stages stores the activations of at most S - s
// micro-batches.
TEST(Schedule, ADelayKeepsSeveralMicroBatchesUnderWay) {
  constexpr int64_t kStages = 4;
  constexpr int64_t kMicroBatches = 7;
  for (int64_t stage = 0; stage < kStages; ++stage) {
    const std::vector<ScheduleEntry> schedule = {
        {"train", Segment::kForward, Repeat::kPerMicroBatch, 0},
        {"train", Segment::kBackward, Repeat::kPerMicroBatch, kStages - 1 - stage},
        {"train", Segment::kOptimizer, Repeat::kOnce, 0}};
    int64_t under_way = 0;
    int64_t most = 0;
    std::vector<int64_t> backward;
    for (const ScheduledRun& run : all_runs(schedule, kMicroBatches)) {
      if (run.segment == Segment::kForward) most = std::max(most, ++under_way);
      if (run.segment == Segment::kBackward) {
        --under_way;
        backward.push_back(run.micro_batch);
      }
    }
    EXPECT_EQ(under_way, 0);
    EXPECT_EQ(most, kStages - stage);
    EXPECT_EQ(std::ssize(backward), kMicroBatches);
    EXPECT_TRUE(std::ranges::is_sorted(backward));
  }
}

// Tests the order of Megatron's interleaved schedule with two stages of two chunks: before its first backward pass, the first stage runs
// four forward passes of chunks and the last stage two.
TEST(Schedule, ChunksTakeTurnsInRoundsOfMicroBatches) {
  const auto order = [](int64_t stage, int64_t batches) {
    std::string text;
    for (const ScheduledRun& run :
         all_runs(interleaved_step_schedule({.count = 2, .pipeline_size = 2, .stage = stage, .chunks = 2}),
                  batches)) {
      if (run.micro_batch < 0) continue;
      text += (run.segment == Segment::kForward ? "F" : "B") + std::to_string(run.chunk) +
              std::to_string(run.micro_batch) + " ";
    }
    return text;
  };
  EXPECT_EQ(order(0, 4), "F00 F01 F10 F11 F02 B10 F03 B11 F12 B00 F13 B01 B12 B13 B02 B03 ");
  EXPECT_EQ(order(1, 4), "F00 F01 F10 B10 F11 B11 F02 B00 F03 B01 F12 B12 F13 B13 B02 B03 ");
  // Three micro-batches in rounds of two, so the last round has only one micro-batch.
  EXPECT_EQ(order(1, 3), "F00 F01 F10 B10 F11 B11 F02 B00 B01 F12 B12 B02 ");
}

TEST(Schedule, GenerationReadsThePromptAndThenRunsPerToken) {
  const std::vector<ScheduleEntry> schedule = {{"prompt", Segment::kForward, Repeat::kPerMicroBatch, 0},
                                               {"token", Segment::kForward, Repeat::kUntilDone, 0}};
  const std::vector<ScheduledRun> expected = {{"prompt", Segment::kForward, 0},
                                              {"token", Segment::kForward, -1}};
  EXPECT_EQ(all_runs(schedule, 1), expected);
}

}  // namespace
}  // namespace plimsoll
