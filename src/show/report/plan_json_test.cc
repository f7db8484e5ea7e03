#include "show/report/result_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/compile/testing/plan_case.h"
#include "show/report/plan_table.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

TEST(PlanJson, AddsUpAndReadsBack) {
  int checked = 0;
  for (const PlanRequest& request : all_plan_cases()) {
    const Plan plan = build_plan(request);
    const Json json = Json::parse(plan_json(plan));
    EXPECT_EQ(json["schema_version"], kPlanJsonVersion);
    EXPECT_EQ(json["total_bytes"], plan.total_bytes());
    ASSERT_EQ(json["spaces"].size(), 1u);
    const Json& space = json["spaces"][0];
    EXPECT_EQ(space["name"], "cpu");
    EXPECT_EQ(space["arena_bytes"].get<int64_t>() + space["constant_bytes"].get<int64_t>(),
              plan.total_bytes());
    EXPECT_EQ(space["lower_bound_bytes"], plan.lower_bound_bytes);
    int64_t sum = 0;
    for (const Json& bytes : json["by_purpose"]) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, plan.total_bytes());
    int64_t largest = 0;
    for (const Json& phase : json["by_phase"]) {
      int64_t column = phase["gaps_bytes"];
      for (const Json& bytes : phase["by_purpose"]) column += bytes.get<int64_t>();
      EXPECT_EQ(phase["total_bytes"], column);
      EXPECT_EQ(phase["arena_bytes"].get<int64_t>() + phase["unused_bytes"].get<int64_t>(), plan.arena_bytes);
      largest = std::max(largest, column);
    }
    EXPECT_EQ(largest, plan.total_bytes());
    for (const char* group : {"tensor_contractions", "statistical_normalizations", "element_wise_operators",
                              "data_movement", "communication"}) {
      ASSERT_TRUE(json["operations"].contains(group)) << group;
      EXPECT_TRUE(json["operations"][group]["flops"].is_number_integer());
      EXPECT_TRUE(json["operations"][group]["bytes"].is_number_integer());
    }
    EXPECT_GT(json["operations"]["tensor_contractions"]["flops"].get<int64_t>(), 0);
    ++checked;
  }
  EXPECT_GE(checked, 49);
}

TEST(PlanJson, IsTheSameForTheSameRequest) {
  const PlanRequest request = preset_request("all-MiniLM-L6-v2", 8, 64);
  const std::string text = plan_json(build_plan(request));
  EXPECT_EQ(text, plan_json(build_plan(request))) << "nothing that was timed may be in it";
  EXPECT_TRUE(text.starts_with("{\n  \"by_phase\": {\n    \"eval\": {\n"));
  EXPECT_TRUE(text.ends_with("}\n"));
}

// If optimizer states are kept in host memory, the JSON must have a second memory space, the table an additional line,
// and the estimated step must include the time of the transfers.
TEST(PlanJson, HasBothSpacesOfARunThatKeepsItsStatesOnTheHost) {
  // The test uses a large model. The GPU still holds the states of two updates at a time, and in a small model the embedding
  // table alone would have half of all states, so that keeping states on the host would save little GPU memory.
  PlanRequest request = preset_request("bert-large-uncased", 8, 64);
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  const Json without = Json::parse(plan_json(build_plan(request)));
  request.update.offload_states = true;
  const Plan plan = build_plan(request);
  const Json json = Json::parse(plan_json(plan));
  ASSERT_EQ(json["spaces"].size(), 2u);
  EXPECT_EQ(json["spaces"][0]["arena_bytes"], plan.arena_bytes);
  EXPECT_EQ(json["spaces"][1]["name"], "host");
  EXPECT_EQ(json["spaces"][1]["arena_bytes"], plan.staging_bytes() + plan.host_arena_bytes);
  EXPECT_EQ(json["total_bytes"], plan.arena_bytes + plan.constant_bytes());
  EXPECT_LT(json["total_bytes"], without["total_bytes"]);
  EXPECT_NE(plan_table(plan).find("pinned host memory"), std::string::npos);
  // Lower bound of the time that the transfers add: both moments of every parameter are transferred to the GPU and
  // back once, at the same time in both directions.
  const double one_way_ms =
      1e3 * static_cast<double>(plan.host_persistent_bytes) / (request.device.gpu.link_gb_per_s * 1e9);
  const double without_ms = without["estimate"]["ms"].get<double>();
  const double more_ms = json["estimate"]["ms"].get<double>() - without_ms;
  // Only the next forward pass, a third of the computation, can hide transfers. All updates wait for the norm of the
  // gradients, which is known only after the backward pass.
  EXPECT_GT(more_ms, one_way_ms - without_ms / 3);
  EXPECT_LT(more_ms, 3 * one_way_ms);
}

// If optimizer states are kept on a disk, the JSON must list the disk as a memory space, and total_bytes must not
// include its bytes.
TEST(PlanJson, HasTheDiskOfARunThatKeepsItsStatesThere) {
  PlanRequest request = small_request();
  const Json without = Json::parse(plan_json(build_plan(request)));
  request.update.offload_states = request.update.states_on_disk = true;
  const Plan plan = build_plan(request);
  const Json json = Json::parse(plan_json(plan));
  ASSERT_EQ(json["spaces"].size(), 2u);
  const Json& disk = json["spaces"][1];
  EXPECT_EQ(disk["name"], "disk");
  EXPECT_EQ(disk["arena_bytes"], plan.disk_bytes);
  EXPECT_EQ(disk["source"], "assumed");
  // AdamW has two fp32 states per parameter, which are 8 bytes.
  EXPECT_EQ(disk["read_bytes_per_step"], 8 * plan.num_parameters());
  EXPECT_EQ(disk["written_bytes_per_step"], 8 * plan.num_parameters());
  EXPECT_EQ(json["total_bytes"], plan.arena_bytes + plan.constant_bytes());
  EXPECT_GT(json["estimate"]["ms"].get<double>(), without["estimate"]["ms"].get<double>());
  EXPECT_NE(plan_table(plan).find("(assumed)"), std::string::npos) << plan_table(plan);
  request.disk = {.read_gb_per_s = 7, .write_gb_per_s = 6, .both_gb_per_s = 6.5, .date = "2026-11-27"};
  const Plan measured = build_plan(request);
  EXPECT_EQ(Json::parse(plan_json(measured))["spaces"][1]["source"], "measured");
  EXPECT_NE(plan_table(measured).find("(measured"), std::string::npos) << plan_table(measured);
}

TEST(PlanJson, CountsCapturedPrograms) {
  PlanRequest request = small_request();
  EXPECT_TRUE(Json::parse(plan_json(build_plan(request)))["request"]["captured_buckets"].is_null());
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
  request.batches.accumulation_steps = 2;
  request.captured_buckets = {.train = 3, .update = 2, .evaluate = 4};
  const Plan plan = build_plan(request);
  const Json json = Json::parse(plan_json(plan));
  EXPECT_EQ(json["request"]["captured_buckets"], (Json{{"train", 3}, {"update", 2}, {"evaluate", 4}}));
  EXPECT_EQ(json["programs"][0]["captured_graphs"], 8) << "forward and backward three times, two updates";
  EXPECT_EQ(json["programs"][1]["captured_graphs"], 4);
  const int64_t captured = json["programs"][0]["captured_graph_bytes"].get<int64_t>() +
                           json["programs"][1]["captured_graph_bytes"].get<int64_t>();
  EXPECT_EQ(json["spaces"][0]["constant_bytes"], request.device.gpu.constant_bytes + captured);
}

TEST(MemoryJson, HasTheAgreedKeys) {
  const Json json = Json::parse(memory_json({.predicted_total_bytes = 5,
                                             .arena_bytes = 4,
                                             .arena_high_water_bytes = 3,
                                             .arena_written_bytes = 7,
                                             .lower_bound_bytes = 2,
                                             .constant_bytes = 1,
                                             .measured_peak_bytes = 6}));
  EXPECT_EQ(json["predicted_total_bytes"], 5);
  EXPECT_EQ(json["arena_bytes"], 4);
  EXPECT_EQ(json["arena_high_water_bytes"], 3);
  EXPECT_EQ(json["arena_written_bytes"], 7);
  EXPECT_EQ(json["measured_peak_bytes"], 6);
}

}  // namespace
}  // namespace plimsoll
