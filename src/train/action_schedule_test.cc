// Tests which actions (log, evaluation, checkpoint) are due after a step.
#include "train/action_schedule.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Returns the actions that are due after a step, in a run of 10 steps with 5 steps per epoch.
TrainControl due_after(const Arguments& arguments, int64_t step,
                       ValidationData validation = ValidationData::kPresent) {
  const ActionSchedule schedule(arguments, 10, validation);
  const StepInfo info{.step = step, .max_steps = 10, .epoch = static_cast<double>(step) / 5.0};
  TrainControl control;
  schedule.add_due(info, {.epoch = step / 5, .index = step % 5}, control);
  return control;
}

Arguments arguments_without_actions() {
  Arguments arguments;
  arguments.logging_strategy = "no";
  arguments.eval_strategy = "no";
  arguments.save_strategy = "no";
  return arguments;
}

TEST(ActionSchedule, DoesNothingUnlessAsked) {
  for (int64_t step = 1; step <= 10; ++step) {
    const TrainControl control = due_after(arguments_without_actions(), step);
    EXPECT_FALSE(control.log || control.evaluate || control.save || control.stop) << step;
  }
}

TEST(ActionSchedule, EvaluatesAndSavesAtIntervalsAndAtTheEnd) {
  Arguments arguments = arguments_without_actions();
  arguments.eval_strategy = arguments.save_strategy = "steps";
  arguments.eval_steps = 3;
  arguments.save_steps = 4;
  for (int64_t step = 1; step <= 10; ++step) {
    const TrainControl control = due_after(arguments, step);
    EXPECT_EQ(control.evaluate, step % 3 == 0 || step == 10) << step;
    EXPECT_EQ(control.save, step % 4 == 0 || step == 10) << step;
    EXPECT_FALSE(due_after(arguments, step, ValidationData::kNone).evaluate) << step;
  }
}

TEST(ActionSchedule, EvaluatesAtTheEndOfEachEpochAfterTheDelay) {
  Arguments arguments = arguments_without_actions();
  arguments.eval_strategy = "epoch";
  EXPECT_TRUE(due_after(arguments, 5).evaluate);
  EXPECT_FALSE(due_after(arguments, 6).evaluate);
  arguments.eval_delay = 1.5;
  EXPECT_FALSE(due_after(arguments, 5).evaluate);
  EXPECT_TRUE(due_after(arguments, 10).evaluate);
}

TEST(ActionSchedule, LogsTheFirstStepIfAsked) {
  Arguments arguments = arguments_without_actions();
  arguments.logging_first_step = true;
  EXPECT_TRUE(due_after(arguments, 1).log);
  EXPECT_FALSE(due_after(arguments, 2).log);
}

TEST(ActionSchedule, WarnsIfTheBestStepMayNotBeSaved) {
  Arguments arguments = arguments_without_actions();
  arguments.eval_strategy = arguments.save_strategy = "steps";
  arguments.load_best_model_at_end = true;
  arguments.eval_steps = 1;
  arguments.save_steps = 4;
  const auto warning = [&] {
    return ActionSchedule(arguments, 10, ValidationData::kPresent).unsaved_evaluations_warning();
  };
  EXPECT_NE(warning().find("steps are evaluated every 1 but saved every 4"), std::string::npos);
  arguments.save_steps = 1;
  EXPECT_EQ(warning(), "");
}

}  // namespace
}  // namespace plimsoll
