#include "run/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

// A correlation with a constant is NaN. A run must be able to resume from a checkpoint that contains such a metric.
TEST(RunState, KeepsNumbersThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  RunState state;
  state.step = 7;
  state.best.metric = -kInfinity;
  state.data.hash = 0xfedcba9876543210u;
  state.data.rows = 12;
  state.schedule_state["best"] = kInfinity;
  const RunState read = parse_run_state(run_state_json(state), "run_state.json");
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.best.metric, -kInfinity);
  EXPECT_EQ(read.data.hash, 0xfedcba9876543210u);
  EXPECT_EQ(read.data.rows, 12);
  EXPECT_EQ(read.schedule_state.at("best"), kInfinity);
}

TEST(RunState, KeepsItsRunAndWhatIsDue) {
  RunState state;
  state.run = new_run_identity();
  EXPECT_EQ(state.run.id.size(), 16u);
  EXPECT_NE(state.run.id, new_run_identity().id);
  EXPECT_LE(state.run.started, new_run_identity().started);
  state.evaluation_is_due = true;
  const RunState read = parse_run_state(run_state_json(state), "run_state.json");
  EXPECT_EQ(read.run, state.run);
  EXPECT_TRUE(read.evaluation_is_due);
  EXPECT_FALSE(read.save_is_due);
}

// The log is stored in a separate file, but a state in the format of version 1 contains it and must still be read.
TEST(RunState, ReadsTheLogOfBothVersions) {
  LogHistory history;
  for (int64_t step = 1; step <= 5000; ++step) {
    history.push_back({.step = step, .epoch = 0.1, .values = {{"loss", 1.0 / static_cast<double>(step)}}});
  }
  history.push_back(
      {.step = 5001, .epoch = 1, .values = {{"eval_pearson", std::nan("")}, {"eval_loss", 0.25}}});
  MemoryFileSystem files;
  write_streamed_file(files, "/log.jsonl", [&](const PutText& put) { write_log(history, put); });
  const LogHistory read = read_log(files, "/log.jsonl");
  ASSERT_EQ(read.size(), history.size());
  for (size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(read[i].step, history[i].step);
    EXPECT_EQ(read[i].values, history[i].values);
  }
  EXPECT_TRUE(std::isnan(read.back().values.at("eval_pearson")));
  EXPECT_EQ(read.back().values.at("eval_loss"), 0.25);

  auto json = nlohmann::json::parse(run_state_json(RunState()));
  json["schema_version"] = 1;
  json.erase("run");
  json.erase("due");
  json["log_history"] = {{{"step", 3}, {"epoch", 0.5}, {"loss", "Infinity"}}};
  const RunState old = parse_run_state(json.dump(), "run_state.json");
  EXPECT_EQ(old.run, RunIdentity());
  ASSERT_EQ(old.log_history.size(), 1u);
  EXPECT_TRUE(std::isinf(old.log_history[0].values.at("loss")));
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
    EXPECT_TRUE(std::string(error.what()).starts_with("run_state.json: this is not the state of a run"))
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
