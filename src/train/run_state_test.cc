#include "train/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

// The correlation with a constant is no number; a checkpoint that holds it must be one that resumes.
TEST(RunState, KeepsNumbersThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  RunState state;
  state.step = 7;
  state.log_history.push_back({.step = 7, .epoch = 0.5, .values = {}});
  state.log_history[0].values["eval_pearson"] = std::numeric_limits<double>::quiet_NaN();
  state.log_history[0].values["eval_loss"] = 0.25;
  state.best_metric = -kInfinity;
  state.data_hash = 0xfedcba9876543210u;
  state.data_rows = 12;
  state.schedule_state["best"] = kInfinity;
  const RunState read = parse_run_state(run_state_json(state), "run_state.json");
  EXPECT_EQ(read.step, 7);
  ASSERT_EQ(read.log_history.size(), 1u);
  EXPECT_TRUE(std::isnan(read.log_history[0].values.at("eval_pearson")));
  EXPECT_EQ(read.log_history[0].values.at("eval_loss"), 0.25);
  EXPECT_EQ(read.best_metric, -kInfinity);
  EXPECT_EQ(read.data_hash, 0xfedcba9876543210u);
  EXPECT_EQ(read.data_rows, 12);
  EXPECT_EQ(read.schedule_state.at("best"), kInfinity);
}

TEST(RunState, RefusesWhatIsNoNumber) {
  RunState state;
  state.schedule_state["best"] = std::numeric_limits<double>::infinity();
  std::string text = run_state_json(state);
  text.replace(text.find("Infinity"), 8, "Eternity");
  try {
    parse_run_state(text, "run_state.json");
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    EXPECT_TRUE(std::string(error.what()).starts_with("run_state.json: not a run state")) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
