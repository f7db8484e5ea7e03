#include "device/comm/rank_progress.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using std::chrono::milliseconds;
using Kind = RankProgress::Kind;

constexpr milliseconds kShort{30};
constexpr milliseconds kLong{200};
constexpr milliseconds kEnough{1000};

// A rank with a simulated clock, which only this object advances.
class ClockedRank {
 public:
  // Advances the clock while the process runs, that is, with frequent calls of note_time().
  void run_for(milliseconds time) {
    constexpr milliseconds kPause{10};
    for (; time > kPause; time -= kPause) jump(kPause);
    jump(time);
  }
  // Advances the clock at once and calls note_time() only afterwards. Unless the time is short, this simulates a process that is stopped.
  void jump(milliseconds time) {
    now_ += time;
    progress.note_time();
  }
  // Waits in an operation, while all other ranks answer, until the wait counts as too long or this time has passed. Returns the
  // limit that was exceeded, or 0.
  milliseconds passed_limit(milliseconds time) {
    const RankProgress::Wait wait(progress, "barrier", Kind::kSomeRanks);
    for (milliseconds waited{0}; waited < time; waited += milliseconds(1)) {
      const auto overdue = progress.overdue();
      if (overdue && !overdue->needs_silence) {
        EXPECT_EQ(waited, overdue->limit) << "noticed at another time";
        return overdue->limit;
      }
      jump(milliseconds(1));
    }
    return milliseconds(0);
  }
  void meet(Kind kind) { const RankProgress::Wait wait(progress, "all_reduce", kind); }

 private:
  RankProgress::Clock::time_point now_ = {};

 public:
  RankProgress progress{[this] { return now_; }};
};

// While the others already wait in the next step, one rank may still write a checkpoint. Their wait must not count as too long.
TEST(RankProgress, TheLimitOfStepsAppliesWhenAllRanksHaveReachedOne) {
  ClockedRank rank;
  EXPECT_EQ(rank.passed_limit(kEnough), milliseconds(0)) << "no limit";
  rank.progress.set_longest_wait(kLong);
  rank.progress.begin(RankPhase::kStep, 1, kShort);
  EXPECT_EQ(rank.passed_limit(kEnough), kLong);
  rank.meet(Kind::kSomeRanks);
  EXPECT_EQ(rank.passed_limit(kEnough), kLong) << "a broadcast says nothing of the others";
  rank.meet(Kind::kAllRanks);
  EXPECT_EQ(rank.passed_limit(kEnough), kShort);
  rank.progress.begin(RankPhase::kStep, 2, kShort);
  EXPECT_EQ(rank.passed_limit(kEnough), kShort);
  for (const RankPhase phase : {RankPhase::kCheckpoint, RankPhase::kEvaluation, RankPhase::kEnd}) {
    rank.progress.begin(phase, 2);
    rank.meet(Kind::kAllRanks);
    EXPECT_EQ(rank.passed_limit(kEnough), kLong);
    rank.progress.begin(RankPhase::kStep, 3, kShort);
    EXPECT_EQ(rank.passed_limit(kEnough), kLong);
    rank.meet(Kind::kAllRanks);
    EXPECT_EQ(rank.passed_limit(kEnough), kShort);
  }
  rank.progress.begin(RankPhase::kStep, 4);
  EXPECT_EQ(rank.passed_limit(kEnough), kLong) << "without a limit of its own";
}

// A process that writes to a slow disk still answers questions, so waiting for it is not a failure. A stopped process does not
// answer.
TEST(RankProgress, OutsideOfStepsTheLimitOfTheStepBeforeAppliesToSilentRanks) {
  ClockedRank rank;
  rank.progress.set_longest_wait(kLong);
  const auto is_overdue_if_silent = [&] {
    const RankProgress::Wait wait(rank.progress, "barrier", Kind::kSomeRanks);
    rank.run_for(kShort);
    const auto overdue = rank.progress.overdue();
    return overdue && overdue->needs_silence && overdue->limit == kShort;
  };
  rank.progress.begin(RankPhase::kBegin, 0);
  EXPECT_FALSE(is_overdue_if_silent());
  rank.progress.begin(RankPhase::kStep, 1);
  EXPECT_FALSE(is_overdue_if_silent());
  rank.progress.begin(RankPhase::kStep, 2, kShort);
  EXPECT_TRUE(is_overdue_if_silent());
  rank.progress.begin(RankPhase::kCheckpoint, 2);
  EXPECT_TRUE(is_overdue_if_silent());
}

TEST(RankProgress, TimeBetweenWaitsIsNoWait) {
  ClockedRank rank;
  rank.progress.set_longest_wait(kShort);
  rank.run_for(kShort);
  EXPECT_FALSE(rank.progress.overdue());
  std::optional<RankProgress::Overdue> overdue;
  {
    const RankProgress::Wait wait(rank.progress, "barrier", Kind::kSomeRanks);
    rank.run_for(kShort - milliseconds(1));
    EXPECT_FALSE(rank.progress.overdue());
    rank.run_for(milliseconds(1));
    overdue = rank.progress.overdue();
    ASSERT_TRUE(overdue);
    EXPECT_EQ(overdue->position.operation, "barrier");
    EXPECT_EQ(overdue->position.time, kShort);
    EXPECT_TRUE(rank.progress.is_in(overdue->wait));
  }
  EXPECT_FALSE(rank.progress.is_in(overdue->wait));
  EXPECT_FALSE(rank.progress.position().waits);
  const RankProgress::Wait next(rank.progress, "barrier", Kind::kSomeRanks);
  EXPECT_FALSE(rank.progress.is_in(overdue->wait));
}

// A pause of more than a second between two calls of note_time() means that the process was stopped, and must not count as
// waiting.
TEST(RankProgress, TimeInWhichTheProcessIsStoppedIsNoWait) {
  ClockedRank rank;
  rank.progress.note_time();
  rank.progress.set_longest_wait(milliseconds(2000));
  const RankProgress::Wait wait(rank.progress, "barrier", Kind::kSomeRanks);
  rank.run_for(milliseconds(1000));
  rank.jump(milliseconds(60'000));
  EXPECT_FALSE(rank.progress.overdue());
  rank.run_for(milliseconds(999));
  EXPECT_FALSE(rank.progress.overdue());
  rank.run_for(milliseconds(1));
  EXPECT_TRUE(rank.progress.overdue());
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
      without_store.find("     1  not known        not known                 rank 0, which would forward "
                         "the question, does not answer"),
      std::string::npos)
      << without_store;
}

// If the table is too long to show all ranks, it must still show the rank that keeps the others waiting, whatever its number is.
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
