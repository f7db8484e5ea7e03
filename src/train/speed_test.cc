#include "train/speed.h"

#include <gtest/gtest.h>

#include "metrics/metrics.h"

namespace plimsoll {
namespace {

TEST(Waiting, AboveATwentiethOfTheTimeItNamesTheWorkers) {
  EXPECT_EQ(waiting_text(0.0, 0), "");
  EXPECT_EQ(waiting_text(0.05, 0), "");
  EXPECT_EQ(waiting_text(0.0501, 0),
            "5 % of the time is spent waiting for the next batch: try --dataloader_num_workers 1 (now 0)");
  EXPECT_EQ(waiting_text(0.5, 3),
            "50 % of the time is spent waiting for the next batch: try --dataloader_num_workers 6 (now 3)");
}

// With --logging_steps 500, a short run has only one record. The warning must then come at the first record.
TEST(Waiting, TheFirstRecordWarnsToo) {
  WaitingWatch watch;
  for (int i = 0; i < 500; ++i) watch.add(20, 100);
  EXPECT_EQ(watch.at_log(0),
            "20 % of the time is spent waiting for the next batch: try --dataloader_num_workers 1 (now 0)");
  for (int i = 0; i < 500; ++i) watch.add(20, 100);
  EXPECT_EQ(watch.at_log(0), "") << "once a run";
  EXPECT_EQ(watch.at_end(0), "");
}

TEST(Waiting, TheFirstStepCountsNowhere) {
  WaitingWatch watch;
  watch.add(5000, 5100);
  EXPECT_EQ(watch.at_log(0), "");
  for (int i = 0; i < 20; ++i) watch.add(1, 100);
  EXPECT_EQ(watch.at_log(0), "");
  EXPECT_EQ(watch.at_end(0), "");
  watch.add(50, 100);
  EXPECT_NE(watch.at_log(0), "") << "by the steps since the last record";
}

// If a run ends before its first log record, the warning appears at its end and counts the waiting time of all steps.
TEST(Waiting, TheEndWarnsByTheWholeRun) {
  WaitingWatch watch;
  watch.add(0, 100);
  for (int i = 0; i < 9; ++i) watch.add(60, 100);
  EXPECT_EQ(watch.at_end(2), "") << "less than a second is not worth a line";
  watch.add(60, 100);
  EXPECT_EQ(watch.at_end(2),
            "60 % of the time is spent waiting for the next batch: try --dataloader_num_workers 4 (now 2)");
  EXPECT_EQ(watch.at_end(2), "");
}

TEST(Speed, IsRoundedAsTrainerRoundsIt) {
  const MetricMap metrics = speed_metrics("eval", {.seconds = 3.00004, .samples = 10, .steps = 2});
  EXPECT_EQ(metrics.at("eval_runtime"), 3.0);
  EXPECT_EQ(metrics.at("eval_samples_per_second"), 3.333);
  EXPECT_EQ(metrics.at("eval_steps_per_second"), 0.667);
  EXPECT_TRUE(with_suffix(metrics, kMismatchedSuffix).contains("eval_runtime_mm"));
}

}  // namespace
}  // namespace plimsoll
