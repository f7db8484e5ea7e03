#include "show/html/buffer_map.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/anatomy/memory.h"
#include "plan/compile/testing/plan_case.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

int64_t sum_of_purposes(const PurposeBytes& bytes) {
  int64_t sum = 0;
  for (const int64_t part : bytes) sum += part;
  return sum;
}

// At every op and for every purpose, the buffers of the map must have as many bytes as the plan's tables of memory
// (MemoryAnatomy) state, and byte_ops() must be the sum of these bytes over all ops.
TEST(BufferMap, AddsUpToThePlan) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    for (const ProgramPlan& program : plan.programs) {
      const BufferMap map = buffer_map(plan, program);
      const MemoryTimeline timeline = memory_timeline(plan, program);
      ASSERT_EQ(map.num_ops(), timeline.by_op.size());
      std::vector<PurposeBytes> by_op(map.num_ops());
      for (const MapBuffer& buffer : map.buffers) {
        for (uint32_t i = buffer.first; i <= buffer.last; ++i)
          by_op[i][static_cast<size_t>(buffer.purpose)] += buffer.bytes;
        EXPECT_LE(buffer.offset + buffer.bytes, plan.arena_bytes) << buffer.name;
      }
      EXPECT_EQ(by_op, timeline.by_op);
      double area = 0;
      for (const PurposeBytes& bytes : timeline.by_op) area += static_cast<double>(sum_of_purposes(bytes));
      EXPECT_EQ(map.byte_ops(), area);
      EXPECT_EQ(map.live_bytes(map.peak), sum_of_purposes(timeline.by_op[timeline.peak]));
      EXPECT_LE(map.live_bytes(map.peak), plan.arena_bytes);
      ++checked;
    }
  }
  EXPECT_GE(checked, 49);
}

TEST(BufferMap, HasNoBuffersThatShareAByteAtAnOp) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  const BufferMap map = buffer_map(plan, plan.programs.first());
  for (size_t i = 0; i < map.buffers.size(); ++i) {
    for (size_t j = i + 1; j < map.buffers.size(); ++j) {
      const MapBuffer& a = map.buffers[i];
      const MapBuffer& b = map.buffers[j];
      const bool same_time = a.first <= b.last && b.first <= a.last;
      const bool same_bytes = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(same_time && same_bytes) << a.name << " and " << b.name;
    }
  }
}

TEST(BufferMap, HasTimesThatDoNotDecrease) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  const BufferMap map = buffer_map(plan, plan.programs.first());
  EXPECT_TRUE(std::ranges::is_sorted(map.start_ms));
  EXPECT_GT(map.start_ms.back(), 0);
}

TEST(BufferMap, ReadsWhatItWrites) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  const nlohmann::json json = map_json(buffer_map(plan, plan.programs.first()));
  EXPECT_EQ(map_json(parse_map(json, "report.json")), json);
}

TEST(BufferMap, RefusesDamagedFiles) {
  const Plan plan = build_plan(preset_request("all-MiniLM-L6-v2", 8, 64));
  const nlohmann::json json = map_json(buffer_map(plan, plan.programs.first()));
  const auto refusal = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json damaged = json;
    damaged[key] = value;
    try {
      parse_map(damaged, "runs/a/report.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("arena_bytes", 64).find("runs/a/report.json: buffer '"), std::string::npos);
  EXPECT_NE(refusal("peak", 1 << 30).find("its peak is op 1073741824"), std::string::npos);
  EXPECT_NE(refusal("modules", nlohmann::json::array()).find("refers to a module that is not in the file"),
            std::string::npos);
  EXPECT_NE(refusal("buffers", {{1, 2}}).find("the map of the arena cannot be read"), std::string::npos);
  EXPECT_NE(refusal("start_ms", {0.0}).find("the file is damaged"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
