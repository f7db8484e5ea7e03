#include "plan/compile/stage_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "plan/compile/schedule.h"

namespace plimsoll {
namespace {

TEST(DivideLayers, MakesTheSlowestStageAsFastAsPossible) {
  EXPECT_EQ(divide_layers_evenly({1, 1, 1, 1}, 0, 0, 2), (std::vector<int64_t>{0, 2}));
  // The division must take into account the costs of the ops before the first layer (embeddings) and after the last layer (head).
  EXPECT_EQ(divide_layers_evenly({1, 1, 1, 1}, 0, 2, 2), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(divide_layers_evenly({1, 1, 1, 1}, 2, 0, 2), (std::vector<int64_t>{0, 1}));
  // The slowest stage of this division has a cost of 4. The first stage should have as few layers as this permits, because it stores
  // activations of the most micro-batches.
  EXPECT_EQ(divide_layers_evenly({1, 1, 1, 1, 1, 1}, 1, 3, 3), (std::vector<int64_t>{0, 1, 5}));
  EXPECT_EQ(divide_layers_evenly({5, 1, 1, 1}, 0, 0, 2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(divide_layers_evenly({1, 1, 1}, 0, 0, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(divide_layers_evenly({3}, 1, 1, 1), (std::vector<int64_t>{0}));
}

StageAction compute(double ms) {
  return {.kind = StageAction::Kind::kCompute, .ms = ms};
}
StageAction message(StageAction::Kind kind, int64_t peer, const std::string& value, double ms = 0) {
  return {.kind = kind, .peer = peer, .value = value, .bytes = 8, .ms = ms};
}

// Returns stages that take 1 ms for a forward and 2 ms for a backward pass, and send one value in each direction.
std::vector<StagePlan> equal_stages(int64_t count, PipelineSchedule schedule, int64_t num_micro_batches,
                                    double transfer_ms = 0) {
  std::vector<StagePlan> stages;
  for (int64_t stage = 0; stage < count; ++stage) {
    StagePlan plan;
    std::vector<StageAction>& forward = plan.train[index_of(Segment::kForward)];
    std::vector<StageAction>& backward = plan.train[index_of(Segment::kBackward)];
    if (stage > 0) forward.push_back(message(StageAction::Kind::kReceive, stage - 1, "h", transfer_ms));
    forward.push_back(compute(1));
    if (stage + 1 < count) forward.push_back(message(StageAction::Kind::kSend, stage + 1, "h"));
    if (stage + 1 < count)
      backward.push_back(message(StageAction::Kind::kReceive, stage + 1, "d_h", transfer_ms));
    backward.push_back(compute(2));
    if (stage > 0) backward.push_back(message(StageAction::Kind::kSend, stage - 1, "d_h"));
    plan.step_schedule = pipeline_step_schedule(micro_batches_held(
        {.count = count, .pipeline_size = count, .stage = stage, .schedule = schedule}, num_micro_batches));
    stages.push_back(std::move(plan));
  }
  return stages;
}

// With P equal stages and M micro-batches, the first stage computes for the time M (f + b), where f and b are the times of a forward and a
// backward pass. It waits (the pipeline bubble) for (P - 1) (f + b): Narayanan et al., arXiv 2104.04473, section 2.2.
TEST(PipelineSimulation, HasTheBubbleOfEqualStages) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    for (const int64_t stages : {2, 4}) {
      for (const int64_t batches : {1, 2, 3, 8}) {
        const PipelineTime time = simulate_step(equal_stages(stages, schedule, batches), batches);
        const auto m = static_cast<double>(batches), p = static_cast<double>(stages);
        EXPECT_DOUBLE_EQ(time.step_ms, 3 * (m + p - 1)) << stages << " stages, " << batches;
        EXPECT_DOUBLE_EQ(time.bubble(), (p - 1) / (m + p - 1));
        for (const double busy : time.busy_ms) EXPECT_DOUBLE_EQ(busy, 3 * m);
      }
    }
  }
  // Each of the two transfers between three stages adds its time twice, because the micro-batch waits for it in both directions.
  EXPECT_DOUBLE_EQ(simulate_step(equal_stages(3, PipelineSchedule::kGpipe, 1, 0.5), 1).step_ms,
                   3 * 3 + 2 * 2 * 0.5);
}

// Returns stages with several chunks, each of which takes 1 ms for a forward and 2 ms for a backward pass.
std::vector<StagePlan> interleaved_stages(int64_t count, int64_t chunks) {
  std::vector<StagePlan> stages;
  for (int64_t stage = 0; stage < count; ++stage) {
    StagePlan plan;
    const auto exchange = [&](Segment segment, StageAction::Kind kind, int64_t chunk, int64_t boundary,
                              int64_t peer) {
      const bool is_forward = segment == Segment::kForward;
      StageAction action =
          message(kind, (peer + count) % count, (is_forward ? "h" : "d_h") + std::to_string(boundary));
      action.chunk = chunk;
      action.channel = 2 * boundary + (is_forward ? 0 : 1);
      plan.train[index_of(segment)].push_back(action);
    };
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t number = chunk * count + stage;
      const bool is_first = number == 0, is_last = number + 1 == count * chunks;
      using Kind = StageAction::Kind;
      if (!is_first) exchange(Segment::kForward, Kind::kReceive, chunk, number, stage - 1);
      plan.train[index_of(Segment::kForward)].push_back({.chunk = chunk, .ms = 1});
      if (!is_last) exchange(Segment::kForward, Kind::kSend, chunk, number + 1, stage + 1);
      if (!is_last) exchange(Segment::kBackward, Kind::kReceive, chunk, number + 1, stage + 1);
      plan.train[index_of(Segment::kBackward)].push_back({.chunk = chunk, .ms = 2});
      if (!is_first) exchange(Segment::kBackward, Kind::kSend, chunk, number, stage - 1);
    }
    plan.step_schedule =
        interleaved_step_schedule({.count = count, .pipeline_size = count, .stage = stage, .chunks = chunks});
    stages.push_back(std::move(plan));
  }
  return stages;
}

// A stage computes V chunks for each of M micro-batches, and waits for as long as P - 1 chunks take. The bubble is thus smaller than
// without chunks by a factor of V (Narayanan et al., arXiv 2104.04473, section 2.2).
TEST(PipelineSimulation, HasASmallerBubbleWithChunks) {
  for (const int64_t stages : {2, 3, 4}) {
    for (const int64_t chunks : {2, 3, 4}) {
      for (const int64_t rounds : {1, 2, 3}) {
        const int64_t batches = rounds * stages;
        const PipelineTime time = simulate_step(interleaved_stages(stages, chunks), batches);
        const auto work = static_cast<double>(3 * batches * chunks);
        EXPECT_DOUBLE_EQ(time.step_ms, work + 3.0 * static_cast<double>(stages - 1))
            << stages << " stages of " << chunks << " chunks, " << batches;
        for (const double busy : time.busy_ms) EXPECT_DOUBLE_EQ(busy, work);
      }
    }
  }
}

TEST(PipelineSimulation, EndsForEveryNumberOfMicroBatchesWithChunks) {
  for (const int64_t stages : {2, 3, 4, 8}) {
    for (const int64_t chunks : {2, 3, 5}) {
      for (int64_t batches = 1; batches <= 40; ++batches)
        EXPECT_GT(simulate_step(interleaved_stages(stages, chunks), batches).step_ms, 0) << batches;
    }
  }
}

// The last step of an epoch may have fewer micro-batches than the schedule was made for. Such a step must also run to its end.
TEST(PipelineSimulation, EndsForEveryNumberOfMicroBatches) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    const std::vector<StagePlan> stages = equal_stages(4, schedule, 8);
    for (int64_t batches = 1; batches <= 8; ++batches)
      EXPECT_GT(simulate_step(stages, batches).step_ms, 0) << batches;
  }
}

TEST(PipelineSimulation, FindsStagesThatWaitForever) {
  std::vector<StagePlan> stages = equal_stages(2, PipelineSchedule::kGpipe, 1);
  // Checks that a deadlock is detected: the first stage waits for the gradient of a value before it sends that value.
  std::swap(stages[0].train[index_of(Segment::kForward)], stages[0].train[index_of(Segment::kBackward)]);
  try {
    simulate_step(stages, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("stage 0 waits forever when it receives 'd_h' from stage 1"),
              std::string::npos)
        << error.what();
  }
}

TEST(PipelineSimulation, FindsAValueThatIsNotExpected) {
  std::vector<StagePlan> stages = equal_stages(2, PipelineSchedule::kGpipe, 1);
  stages[1].train[index_of(Segment::kForward)].front().value = "x";
  EXPECT_THROW(simulate_step(stages, 1), Error);
  stages = equal_stages(2, PipelineSchedule::kGpipe, 1);
  stages[1].train[index_of(Segment::kForward)].front().bytes = 4;
  EXPECT_THROW(simulate_step(stages, 1), Error);
}

TEST(PipelineSchedule, HoldsAtMostOneMicroBatchPerStage) {
  const auto held = [](PipelineSchedule schedule, int64_t stage, int64_t batches) {
    return micro_batches_held({.count = 4, .pipeline_size = 4, .stage = stage, .schedule = schedule},
                              batches);
  };
  EXPECT_EQ(held(PipelineSchedule::kGpipe, 0, 8), 8);
  EXPECT_EQ(held(PipelineSchedule::kGpipe, 3, 8), 8);
  EXPECT_EQ(held(PipelineSchedule::kOneForwardOneBackward, 0, 8), 4);
  EXPECT_EQ(held(PipelineSchedule::kOneForwardOneBackward, 3, 8), 1);
  EXPECT_EQ(held(PipelineSchedule::kOneForwardOneBackward, 0, 2), 2);
  EXPECT_EQ(micro_batches_held({}, 8), 1);
}

// Each stage stores the activations of two micro-batches fewer than the stage before it. Of the chunks of layers of a stage, the first one
// stores those of the most micro-batches.
TEST(PipelineSchedule, HoldsMicroBatchesPerChunk) {
  const auto held = [](int64_t stage, int64_t batches) {
    return micro_batches_held_by_chunks({.count = 2,
                                         .pipeline_size = 2,
                                         .stage = stage,
                                         .schedule = PipelineSchedule::kInterleaved,
                                         .chunks = 2},
                                        batches);
  };
  EXPECT_EQ(held(0, 8), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(held(1, 8), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(held(0, 2), (std::vector<int64_t>{2, 2}));
}

}  // namespace
}  // namespace plimsoll
