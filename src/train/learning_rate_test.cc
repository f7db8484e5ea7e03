// Tests the learning rate of a run as a function of the number of updates, and of the metrics of evaluations.
#include "train/learning_rate.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(LearningRate, FollowsTheSchedule) {
  Arguments arguments;
  arguments.learning_rate = 0.5;
  arguments.lr_scheduler_type = "linear";
  LearningRate rate(arguments, 10, {});
  EXPECT_DOUBLE_EQ(rate.after(0), 0.5);
  EXPECT_DOUBLE_EQ(rate.after(5), 0.25);
  EXPECT_DOUBLE_EQ(rate.after(10), 0.0);
  // This schedule depends on the number of updates alone, so an evaluation result must not change the rate.
  rate.follow(3.0);
  EXPECT_DOUBLE_EQ(rate.after(5), 0.25);
  std::map<std::string, double> state{{"kept", 1.0}};
  rate.store(state);
  EXPECT_EQ(state.size(), 1u);
}

TEST(LearningRate, RestoresTheStateOfAScheduleThatFollowsAMetric) {
  Arguments arguments;
  arguments.learning_rate = 0.5;
  arguments.lr_scheduler_type = "reduce_lr_on_plateau";
  LearningRate rate(arguments, 100, {});
  for (int i = 0; i < 30; ++i) rate.follow(1.0);
  EXPECT_LT(rate.after(30), 0.5);
  std::map<std::string, double> state;
  rate.store(state);
  LearningRate resumed(arguments, 100, {});
  resumed.restore(state);
  EXPECT_DOUBLE_EQ(resumed.after(30), rate.after(30));
  resumed.restore({});
  EXPECT_DOUBLE_EQ(resumed.after(30), rate.after(30));
}

}  // namespace
}  // namespace plimsoll
