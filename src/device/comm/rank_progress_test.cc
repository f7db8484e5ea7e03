#include "device/comm/rank_progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace plimsoll {
namespace {

using std::chrono::milliseconds;
using Kind = RankProgress::Kind;

// Waits in an operation until it is overdue, even if all ranks answer, at most this time, and returns the limit that has passed; 0 if none
// has.
milliseconds passed_limit(RankProgress& progress, milliseconds time) {
  const RankProgress::Wait wait(progress, "barrier", Kind::kSomeRanks);
  const auto end = RankProgress::Clock::now() + time;
  while (RankProgress::Clock::now() < end) {
    progress.note_time();
    if (const auto overdue = progress.overdue(); overdue && !overdue->needs_silence) return overdue->limit;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return milliseconds(0);
}

constexpr milliseconds kShort{30};
constexpr milliseconds kLong{200};
constexpr milliseconds kEnough{1000};

void meet(RankProgress& progress, Kind kind) {
  const RankProgress::Wait wait(progress, "all_reduce", kind);
}

// One rank may still write a checkpoint while the others wait in the next step.
TEST(RankProgress, TheLimitOfStepsAppliesWhenAllRanksHaveReachedOne) {
  RankProgress progress;
  EXPECT_EQ(passed_limit(progress, 2 * kShort), milliseconds(0)) << "no limit";
  progress.set_longest_wait(kLong);
  progress.begin(RankPhase::kStep, 1, kShort);
  EXPECT_EQ(passed_limit(progress, kEnough), kLong);
  meet(progress, Kind::kSomeRanks);
  EXPECT_EQ(passed_limit(progress, kEnough), kLong) << "a broadcast says nothing of the others";
  meet(progress, Kind::kAllRanks);
  EXPECT_EQ(passed_limit(progress, kEnough), kShort);
  progress.begin(RankPhase::kStep, 2, kShort);
  EXPECT_EQ(passed_limit(progress, kEnough), kShort);
  for (const RankPhase phase : {RankPhase::kCheckpoint, RankPhase::kEvaluation, RankPhase::kEnd}) {
    progress.begin(phase, 2);
    meet(progress, Kind::kAllRanks);
    EXPECT_EQ(passed_limit(progress, kEnough), kLong);
    progress.begin(RankPhase::kStep, 3, kShort);
    EXPECT_EQ(passed_limit(progress, kEnough), kLong);
    meet(progress, Kind::kAllRanks);
    EXPECT_EQ(passed_limit(progress, kEnough), kShort);
  }
  progress.begin(RankPhase::kStep, 4);
  EXPECT_EQ(passed_limit(progress, kEnough), kLong) << "without a limit of its own";
}

// A process that writes to a slow disk answers, but a stopped one does not.
TEST(RankProgress, OutsideOfStepsTheLimitOfTheStepBeforeAppliesToSilentRanks) {
  RankProgress progress;
  progress.set_longest_wait(kLong);
  const auto is_overdue_if_silent = [&] {
    const RankProgress::Wait wait(progress, "barrier", Kind::kSomeRanks);
    std::this_thread::sleep_for(2 * kShort);
    const auto overdue = progress.overdue();
    return overdue && overdue->needs_silence && overdue->limit == kShort;
  };
  progress.begin(RankPhase::kBegin, 0);
  EXPECT_FALSE(is_overdue_if_silent());
  progress.begin(RankPhase::kStep, 1);
  EXPECT_FALSE(is_overdue_if_silent());
  progress.begin(RankPhase::kStep, 2, kShort);
  EXPECT_TRUE(is_overdue_if_silent());
  progress.begin(RankPhase::kCheckpoint, 2);
  EXPECT_TRUE(is_overdue_if_silent());
}

TEST(RankProgress, TimeBetweenWaitsIsNoWait) {
  RankProgress progress;
  progress.set_longest_wait(kShort);
  std::this_thread::sleep_for(2 * kShort);
  EXPECT_FALSE(progress.overdue());
  std::optional<RankProgress::Overdue> overdue;
  {
    const RankProgress::Wait wait(progress, "barrier", Kind::kSomeRanks);
    EXPECT_FALSE(progress.overdue());
    std::this_thread::sleep_for(2 * kShort);
    overdue = progress.overdue();
    ASSERT_TRUE(overdue);
    EXPECT_EQ(overdue->position.operation, "barrier");
    EXPECT_TRUE(progress.is_in(overdue->wait));
  }
  EXPECT_FALSE(progress.is_in(overdue->wait));
  EXPECT_FALSE(progress.position().waits);
  const RankProgress::Wait next(progress, "barrier", Kind::kSomeRanks);
  EXPECT_FALSE(progress.is_in(overdue->wait));
}

TEST(RankProgress, TheTableHasARowPerRank) {
  const std::vector<std::optional<RankPosition>> positions = {
      RankPosition{.phase = RankPhase::kStep,
                   .step = 12,
                   .waits = true,
                   .peer = 1,
                   .number = 57,
                   .operation = "all_reduce of 4096 f32 elements",
                   .time = milliseconds(10240)},
      std::nullopt,
      RankPosition{.phase = RankPhase::kCheckpoint,
                   .step = 11,
                   .number = 56,
                   .operation = "barrier",
                   .time = milliseconds(900)}};
  EXPECT_EQ(
      position_table(positions, 0),
      "  rank  part of the run        state                for  operation\n"
      "     0  step 12                waits for rank 1  10.2 s  all_reduce of 4096 f32 elements (number "
      "57)\n"
      "     1  not known              does not answer           its process is stopped, or its host "
      "cannot be reached\n"
      "     2  checkpoint of step 11  works alone        0.9 s  after barrier (number 56)");
  const std::string without_store = position_table({std::nullopt, std::nullopt, positions[0]}, 2);
  EXPECT_NE(
      without_store.find("     1  not known        not known                 rank 0, which has the store, "
                         "does not answer"),
      std::string::npos)
      << without_store;
}

// The rank that keeps the others waiting is shown, wherever it is.
TEST(RankProgress, TheTableOfManyRanksBeginsWithThoseThatDoNotWait) {
  std::vector<std::optional<RankPosition>> positions(1000);
  for (auto& position : positions)
    position = RankPosition{.waits = true, .number = 1, .operation = "barrier"};
  positions[700].reset();
  const std::string table = position_table(positions, 0);
  EXPECT_NE(table.find("\n   700  not known"), std::string::npos) << table;
  EXPECT_TRUE(table.ends_with("\n  and 968 more")) << table;
}

}  // namespace
}  // namespace plimsoll
