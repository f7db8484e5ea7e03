#include "train/speed.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Waiting, AboveATwentiethOfTheTimeItNamesTheWorkers) {
  EXPECT_EQ(waiting_text(0.0, 0), "");
  EXPECT_EQ(waiting_text(0.05, 0), "");
  EXPECT_EQ(waiting_text(0.0501, 0),
            "5 % of the time goes into waiting for the next batch: try --dataloader_num_workers 1 (now 0)");
  EXPECT_EQ(waiting_text(0.5, 3),
            "50 % of the time goes into waiting for the next batch: try --dataloader_num_workers 6 (now 3)");
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
