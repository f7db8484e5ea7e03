#include "show/report/rank_fit_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace plimsoll {
namespace {

RankFitReport two_rows() {
  RankFitReport report{.num_choices = 40,
                       .num_pruned = 12,
                       .num_plans = 30,
                       .seconds = 1.25,
                       .links = "292.0 GB/s between ranks, assumed"};
  report.rows.push_back({.tensor_size = 1,
                         .data_size = 16,
                         .zero_stage = 1,
                         .recompute = "cheap",
                         .micro_batch = 8,
                         .accumulation = 1,
                         .bytes = int64_t{3} << 30,
                         .communication_bytes = int64_t{700} << 20,
                         .samples_per_s = 12345,
                         .step_ms = 100,
                         .exposed_ms = 2.5,
                         .commands = {"torchrun A", "srun B"}});
  report.rows.push_back({.tensor_size = 2,
                         .sequence_parallel = true,
                         .data_size = 8,
                         .zero_stage = 0,
                         .recompute = "full",
                         .micro_batch = 4,
                         .accumulation = 2,
                         .bytes = (int64_t{2} << 30) + 1,
                         .samples_per_s = 100,
                         .step_ms = 50,
                         .exposed_ms = 25,
                         .commands = {"plimsoll train C"}});
  report.refused = {{.choice = "--tp_size 4", .reason = "a reason"}};
  return report;
}

const RankFitContext kContext{.subject = "a model on 16 x h100", .to_fill_in = "FILE: the training data"};

TEST(RankFitTable, HasALinePerRowAndItsCommands) {
  const std::string text = rank_fit_table(two_rows(), kContext);
  EXPECT_NE(text.find("  1   1   1    16    1     cheap        8     3072      700      12345     2.5 %\n"),
            std::string::npos)
      << text;
  // The row needs one byte more than 2 GiB (2048 MiB). Rounded up, this is 2049 MiB.
  EXPECT_NE(text.find("  2  2s   1     8    0      full    4 x 2     2049        0        100    50.0 %\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nto train row\n  1  torchrun A\n or  srun B\n  2  plimsoll train C\n"
                      "where FILE: the training data\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("not possible: --tp_size 4: a reason\n"), std::string::npos) << text;
  EXPECT_NE(text.find("searched: 40 divisions"), std::string::npos) << text;
}

TEST(RankFitTable, FitsInto80Columns) {
  std::istringstream lines(rank_fit_table(two_rows(), kContext));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(RankFitTable, JsonHasEveryFigure) {
  const nlohmann::json object = nlohmann::json::parse(rank_fit_json(two_rows(), kContext));
  EXPECT_EQ(object.at("rows").size(), 2u);
  EXPECT_EQ(object.at("rows")[0].at("zero_stage"), 1);
  EXPECT_EQ(object.at("rows")[0].at("exposed_ms"), 2.5);
  EXPECT_EQ(object.at("rows")[0].at("sequence_parallel"), false);
  EXPECT_EQ(object.at("rows")[1].at("sequence_parallel"), true);
  EXPECT_EQ(object.at("rows")[1].at("bytes"), (int64_t{2} << 30) + 1);
  EXPECT_EQ(object.at("rows")[1].at("commands")[0], "plimsoll train C");
  EXPECT_EQ(object.at("refused")[0].at("reason"), "a reason");
  EXPECT_EQ(object.at("num_pruned"), 12);
}

}  // namespace
}  // namespace plimsoll
