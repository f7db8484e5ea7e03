#include "show/html/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "plan/anatomy/memory.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Checks that every event of a trace has the fields that the format requires, and that slices of one track do not
// overlap.
void expect_trace(const Json& trace, const Plan& plan, const ProgramPlan& program) {
  ASSERT_TRUE(trace["traceEvents"].is_array());
  std::map<int, double> end_of_track;
  size_t num_ops = 0;
  int64_t most_bytes = 0;
  for (const Json& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["name"].is_string());
    ASSERT_EQ(event["pid"], 1);
    const std::string kind = event["ph"];
    if (kind == "X") {
      const double start = event["ts"];
      double& end = end_of_track[event["tid"].get<int>()];
      // Times are written in microseconds with three decimals, so rounding may let two ops overlap by this much.
      EXPECT_GE(start, end - 0.0015) << event.dump();
      end = start + event["dur"].get<double>();
      EXPECT_GE(event["dur"].get<double>(), 0);
      if (event["cat"] != "segment") {
        EXPECT_EQ(event["name"], program.graph.ops()[num_ops].def->name());
        EXPECT_EQ(event["args"]["position"], num_ops);
        ++num_ops;
      }
    } else if (kind == "C") {
      int64_t sum = 0;
      for (const Json& bytes : event["args"]) sum += bytes.get<int64_t>();
      most_bytes = std::max(most_bytes, sum);
    } else {
      EXPECT_EQ(kind, "M");
    }
  }
  EXPECT_EQ(num_ops, program.graph.ops().size());
  const MemoryTimeline timeline = memory_timeline(plan, program);
  int64_t peak = 0;
  for (const int64_t bytes : timeline.by_op[timeline.peak]) peak += bytes;
  EXPECT_EQ(most_bytes, peak);
}

TEST(Trace, OfEveryPlanHasEachOpOnceAndCountsTheBytes) {
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const Json trace = Json::parse(plan_trace(plan, {}));
    EXPECT_EQ(trace["otherData"]["times"], "estimated");
    expect_trace(trace, plan, plan.programs.first());
  }
}

TEST(Trace, OfAProfileHasTheSameNamesAndTheMeasuredTimes) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  const ProgramPlan& program = plan.programs.first();
  const std::vector<OpEstimate> ops = estimate_ops(plan, program);
  const std::vector<double> ms(ops.size(), 0.5);
  const Json trace = Json::parse(profile_trace(plan, program, {.model = "a \"model\"\n"}, ops, ms));
  EXPECT_EQ(trace["otherData"]["times"], "measured");
  EXPECT_EQ(trace["otherData"]["model"], "a \"model\"\n");
  expect_trace(trace, plan, program);
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "segment") {
      EXPECT_EQ(event["dur"], 500.0);
    }
  }
}

}  // namespace
}  // namespace plimsoll
