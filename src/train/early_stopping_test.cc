#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Returns the number (counted from 1) of the evaluation after which early stopping ends the run, or 0 if it does not end it.
int64_t stops_after(EarlyStopping& stopping, const std::vector<double>& losses) {
  for (size_t i = 0; i < losses.size(); ++i) {
    TrainControl control;
    stopping.on_evaluate({.step = static_cast<int64_t>(i) + 1}, {{"eval_loss", losses[i]}}, control);
    if (control.stop) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, StopsAfterSoManyEvaluationsInARowWithoutImprovement) {
  EarlyStopping stopping("eval_loss", false, 2);
  EXPECT_EQ(stops_after(stopping, {1.0, 0.9, 0.95, 0.8, 0.85, 0.81, 0.1}), 6);
  EarlyStopping greater("eval_loss", true, 1);
  EXPECT_EQ(stops_after(greater, {0.1, 0.2, 0.3, 0.3}), 4);
}

// Improvements below the threshold must change the best value. Otherwise several small ones would add up to an improvement above the
// threshold.
TEST(EarlyStopping, SmallImprovementsMoveTheBestAndCountAsNone) {
  EarlyStopping stopping("eval_loss", false, 2, 0.15);
  EXPECT_EQ(stops_after(stopping, {1.0, 0.9, 0.8}), 3);
}

TEST(EarlyStopping, AnEvaluationBeforeTheFirstStepCountsNothing) {
  EarlyStopping stopping("eval_loss", false, 1);
  TrainControl control;
  stopping.on_evaluate({.step = 0}, {{"eval_loss", 0.1}}, control);
  EXPECT_FALSE(control.stop);
  EXPECT_EQ(stops_after(stopping, {0.5}), 0);
}

TEST(EarlyStopping, NaNIsNoImprovement) {
  EarlyStopping stopping("eval_loss", false, 2);
  EXPECT_EQ(stops_after(stopping, {std::nan(""), std::nan("")}), 2);
}

TEST(EarlyStopping, GoesOnFromItsState) {
  for (const double first : {0.5, kInfinite, -kInfinite}) {
    SCOPED_TRACE(first);
    EarlyStopping before("eval_loss", false, 2), after("eval_loss", false, 2);
    EXPECT_EQ(stops_after(before, {first, kInfinite}), 0);
    after.restore(before.state());
    EXPECT_EQ(after.state(), before.state());
    EXPECT_EQ(stops_after(after, {kInfinite}), 1);
  }
}

TEST(EarlyStopping, NamesTheMetricsThatThereAre) {
  EarlyStopping stopping("eval_f1", true, 1);
  TrainControl control;
  try {
    stopping.on_evaluate({.step = 1}, {{"eval_accuracy", 0.5}, {"eval_loss", 0.7}}, control);
    FAIL() << "watches what is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("'eval_f1'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("eval_accuracy, eval_loss"), std::string::npos) << error.what();
  }
}

TEST(EarlyStopping, RefusesAStateOfSomebodyElse) {
  for (const char* text : {"", "{", "{}", "{\"has_best\": true, \"best\": null, \"bad\": 1}"}) {
    EarlyStopping stopping("eval_loss", false, 1);
    const std::string before = stopping.state();
    try {
      stopping.restore(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      EXPECT_NE(std::string(error.what()).find("another checkpoint"), std::string::npos) << error.what();
    }
    EXPECT_EQ(stopping.state(), before);
  }
}

}  // namespace
}  // namespace plimsoll
