#include "run/run_length.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

Arguments accumulating(int64_t times) {
  Arguments arguments;
  arguments.per_device_train_batch_size = 8;
  arguments.gradient_accumulation_steps = times;
  return arguments;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AccumulatedBatch, IsDescribedOnlyWithAccumulation) {
  EXPECT_EQ(describe_accumulated_batch(accumulating(1), 100), "");
  const std::string text = describe_accumulated_batch(accumulating(4), 250);
  for (const char* part :
       {"--gradient_accumulation_steps 4 makes the effective batch 32 (4 x 8)", "only 250 updates",
        "multiply it by 2 (the square root)", "by up to 4 with SGD", "--warmup_steps 0.06"}) {
    EXPECT_TRUE(contains(text, part)) << part << " in " << text;
  }
}

TEST(AccumulatedBatch, CountsNoUpdatesThatItDoesNotKnow) {
  EXPECT_FALSE(contains(describe_accumulated_batch(accumulating(4), 0), "updates"));
  Arguments fixed = accumulating(16);
  fixed.max_steps = 500;
  const std::string text = describe_accumulated_batch(fixed, 500);
  EXPECT_FALSE(contains(text, "updates")) << "the number of updates does not depend on the batch: " << text;
  EXPECT_TRUE(contains(text, "effective batch 128 (16 x 8)")) << text;
}

TEST(AccumulatedBatch, JudgesTheWarmUp) {
  Arguments steps = accumulating(2);
  steps.warmup_steps = 100;
  EXPECT_TRUE(
      contains(describe_accumulated_batch(steps, 250), "the warm-up of 100 steps is now 40 % of the run"));
  EXPECT_TRUE(
      contains(describe_accumulated_batch(steps, 2), "the warm-up of 100 steps is longer than the run"));
  EXPECT_FALSE(contains(describe_accumulated_batch(steps, 0), "warm-up"))
      << "the length of the run is unknown";
  Arguments share = accumulating(2);
  share.warmup_steps = 0.1;
  EXPECT_FALSE(contains(describe_accumulated_batch(share, 250), "warm-up"))
      << "a share follows the length of the run";
}

}  // namespace
}  // namespace plimsoll
