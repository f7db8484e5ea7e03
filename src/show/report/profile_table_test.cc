#include "show/report/profile_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace plimsoll {
namespace {

OpEstimate op(const char* name, const char* output, OpGroup group, Segment segment, double flops,
              double bytes) {
  return {.op = name,
          .output = output,
          .group = group,
          .segment = segment,
          .flops = flops,
          .bytes = bytes,
          .runs_per_step = 2};
}

std::vector<OpEstimate> three_ops() {
  return {op("matmul", "hidden", OpGroup::kContraction, Segment::kForward, 1e9, 1e6),
          op("gelu", "encoder.layer.11.a_long_name.intermediate.activation", OpGroup::kElementWise,
             Segment::kBackward, 1e6, 1e7),
          op("normalize", "normalized", OpGroup::kNormalization, Segment::kForward, 1e6, 2e7)};
}

TEST(ProfileTable, GroupsForwardBesideBackwardAndTheSlowest) {
  EXPECT_EQ(
      profile_table(three_ops(), std::vector<double>{16.0, 3.0, 1.0},
                    {.num_steps = 5, .step_ms = 21.5, .peak_gflops = 250, .peak_gb_per_s = 20}),
      "profile of a step, ms            forward   backward  optimizer        all   share   GFLOP/s     GB/s\n"
      "  tensor contractions              16.00          -          -      16.00    80 %     125.0      0.1\n"
      "  statistical normalizations        1.00          -          -       1.00     5 %       2.0     40.0\n"
      "  element-wise operators               -       3.00          -       3.00    15 %       0.7      6.7\n"
      "  all ops                          17.00       3.00          -      20.00   100 %     100.2      3.1\n"
      "a step takes 21.50 ms; 1.50 ms of it are outside the ops\n"
      "mean of 5 steps\n"
      "contractions reach 50 % of 250 GFLOP/s, all other operations 75 % of 20.0 GB/s\n"
      "\n"
      "slowest ops                        ms   share  GFLOP/s     GB/s  computes\n"
      "  matmul, forward               16.00    80 %    125.0      0.1  hidden\n"
      "  gelu, backward                 3.00    15 %      0.7      6.7  "
      "..long_name.intermediate.activation\n"
      "  normalize, forward             1.00     5 %      2.0     40.0  normalized\n");
}

TEST(ProfileJson, NamesEveryOpInTheOrderOfTheSchedule) {
  std::vector<OpEstimate> ops = three_ops();
  ops[1].runs_per_step = 4;
  const auto json = nlohmann::json::parse(profile_json(
      ops, std::vector<double>{16.0, 3.0, 1.0}, {.num_steps = 5, .num_first_steps = 2, .step_ms = 21.5}));
  EXPECT_EQ(json["num_steps"], 5);
  EXPECT_EQ(json["num_first_steps"], 2);
  EXPECT_EQ(json["step_ms"], 21.5);
  ASSERT_EQ(json["ops"].size(), 3u);
  EXPECT_EQ(json["ops"][0]["op"], "matmul");
  EXPECT_EQ(json["ops"][0]["ms"], 16.0);
  EXPECT_EQ(json["ops"][1]["segment"], "backward");
  EXPECT_EQ(json["ops"][1]["group"], "element-wise operators");
  EXPECT_EQ(json["ops"][1]["flops"], 4.0 * ops[1].flops);
  EXPECT_EQ(json["ops"][2]["computes"], "normalized");
  EXPECT_THROW(profile_json(ops, std::vector<double>{1.0}, {}), Error);
}

TEST(ProfileTable, LongNamesKeepTheColumns) {
  std::vector<OpEstimate> ops = three_ops();
  ops[1].op = "bias_dropout_residual_norm_bwd";
  const std::string table = profile_table(ops, std::vector<double>{16.0, 3.0, 1.0}, {});
  EXPECT_NE(
      table.find("slowest ops                                       ms   share  GFLOP/s     GB/s  computes\n"
                 "  matmul, forward                              16.00    80 %    125.0      0.1  hidden\n"
                 "  bias_dropout_residual_norm_bwd, backward      3.00    15 %      0.7      6.7  "
                 "..mediate.activation\n"),
      std::string::npos)
      << table;
}

TEST(ProfileTable, SaysWhichStepsAreLeftOut) {
  const auto words = [](const ProfileContext& context) {
    const std::string table = profile_table(three_ops(), std::vector<double>{16.0, 3.0, 1.0}, context);
    const size_t at = table.find("mean of ");
    return at == std::string::npos ? "" : table.substr(at, table.find('\n', at) - at);
  };
  EXPECT_EQ(words({.num_steps = 1}), "mean of 1 step");
  EXPECT_EQ(words({.num_steps = 9, .num_first_steps = 3}),
            "mean of 9 steps; 3 more steps are not included: the first step with a batch size takes longer");
  EXPECT_EQ(words({.num_first_steps = 1}),
            "mean of 1 step, each the first with its batch size, which takes longer: run more steps");
  EXPECT_EQ(words({}), "");
}

TEST(ProfileTable, WantsATimeForEveryOp) {
  EXPECT_THROW(profile_table(three_ops(), std::vector<double>{1.0}, {}), Error);
  EXPECT_NE(profile_table({}, {}, {}).find("all ops"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
