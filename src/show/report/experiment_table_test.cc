#include "show/report/experiment_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "show/report/experiment_plot.h"
#include "show/report/xml_case.h"

namespace plimsoll {
namespace {

ExperimentRow row_of(const std::string& name, double rate, int64_t mib, std::vector<std::string> methods) {
  return {.experiment =
              {.name = name, .key = name, .methods = std::move(methods), .words = {"--x", "1"}, .note = {}},
          .figures = ExperimentFigures{.seconds = 512 / rate,
                                       .samples_per_s = rate,
                                       .predicted_samples_per_s = 1.1 * rate,
                                       .measured_bytes = mib << 20,
                                       .predicted_bytes = (mib + 10) << 20,
                                       .arena_bytes = mib << 19,
                                       .high_water_bytes = mib << 19,
                                       .loss = 0.7,
                                       .model = "bert <large>",
                                       .device = "a \"device\"",
                                       .sequence_length = 512,
                                       .evaluation = {}},
          .refused = {},
          .peer = {}};
}

std::vector<ExperimentRow> four_rows() {
  std::vector<ExperimentRow> rows{row_of("vanilla", 40, 6000, {}), row_of("half", 160, 5400, {"half"}),
                                  row_of("small", 30, 3000, {"small"}),
                                  row_of("both", 120, 2500, {"half", "small"})};
  rows.push_back({.experiment = {.name = "odd", .key = "odd", .methods = {"odd"}, .words = {}, .note = {}},
                  .figures = {},
                  .refused = "odd is not in this version",
                  .peer = {}});
  return rows;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(ExperimentTable, ComparesEachRowWithTheFirstAndNamesWhatWasRefused) {
  const std::string table = experiment_table(four_rows());
  EXPECT_TRUE(contains(table, "4.00 x   90 %")) << table;
  EXPECT_TRUE(contains(table, "0.75 x   50 %")) << table;
  EXPECT_TRUE(contains(table, "odd: odd is not in this version")) << table;
  EXPECT_TRUE(contains(table, "within 15 % of measured in 4 of 4 rows")) << table;
  EXPECT_TRUE(contains(table, "as calibration (x 0.91): 3 of 3 others, at worst +0 %")) << table;
  size_t start = 0;
  for (size_t end = table.find('\n'); end != std::string::npos;
       start = end + 1, end = table.find('\n', start))
    EXPECT_LE(end - start, 100u) << table.substr(start, end - start);
}

TEST(ExperimentSummary, CountsOnlyRowsThatChangeOneThing) {
  const std::string summary = experiment_summary(four_rows());
  EXPECT_TRUE(contains(summary, "half")) << summary;
  EXPECT_FALSE(contains(summary, "both  ")) << summary;
  EXPECT_TRUE(contains(summary, "fastest: half, 160 samples/s; smallest: both, 2500 MiB")) << summary;
  EXPECT_TRUE(contains(summary, "costs")) << summary;
  EXPECT_EQ(experiment_summary({four_rows().back()}), "");
}

TEST(ExperimentTable, TheFirstRowThatRanIsTheReference) {
  std::vector<ExperimentRow> rows = four_rows();
  std::rotate(rows.begin(), rows.end() - 1, rows.end());
  ASSERT_NE(reference_row(rows), nullptr);
  EXPECT_EQ(reference_row(rows)->experiment.name, "vanilla");
  EXPECT_TRUE(contains(experiment_table(rows), "4.00 x"));
  EXPECT_EQ(reference_row({rows.front()}), nullptr);
  EXPECT_TRUE(contains(experiment_table({rows.front()}), "refuses"));
}

TEST(ExperimentTable, ShowsThePeerAndEvaluations) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[0].peer = PeerFigures{.samples_per_s = 20, .measured_bytes = int64_t{12000} << 20, .refused = {}};
  rows[1].peer = PeerFigures{.samples_per_s = 0, .measured_bytes = 0, .refused = "no bitsandbytes here"};
  rows[0].figures->evaluation = {{"eval_accuracy", 0.75}, {"eval_runtime", 1.0}};
  const std::string table = experiment_table(rows);
  EXPECT_TRUE(contains(table, "2.00 x")) << table;
  EXPECT_TRUE(contains(table, "no bitsandbytes here")) << table;
  EXPECT_TRUE(contains(table, "0.7500")) << table;
  EXPECT_FALSE(contains(table, "runtime")) << table;
}

TEST(ExperimentRows, AreReadBackAsTheyWereWritten) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[0].peer = PeerFigures{.samples_per_s = 20, .measured_bytes = 7, .refused = "x"};
  rows[1].figures->evaluation = {{"eval_loss", 0.5}};
  for (const ExperimentRow& row : rows) EXPECT_EQ(parse_experiment_row(experiment_row_json(row), "row"), row);
  rows[0].figures->loss = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(parse_experiment_row(experiment_row_json(rows[0]), "row").figures->loss));
  for (const char* broken : {"", "{}", "[1]", "{\"name\": 1}"}) {
    EXPECT_THROW(parse_experiment_row(broken, "row.json"), Error) << broken;
  }
}

TEST(ExperimentCsv, HasALinePerRow) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[0].experiment.name = "a \"quoted\", name";
  const std::string csv = experiment_csv(rows);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_TRUE(contains(csv, "\"a \"\"quoted\"\", name\",12.8,40,44,")) << csv;
}

TEST(ExperimentPicture, IsWellFormedAndNamesUnitsAndDevice) {
  const std::string svg = experiment_picture(four_rows()).svg();
  EXPECT_EQ(xml_fault(svg), "");
  for (const char* words :
       {"MiB", "samples/s", "a &quot;device&quot;", "bert &lt;large&gt;", "#0072B2", "#E69F00"})
    EXPECT_TRUE(contains(svg, words)) << words;
  EXPECT_EQ(xml_fault(experiment_picture({four_rows().back()}).svg()), "");
}

TEST(ExperimentPicture, IsTheSameAsPngWhereThereIsCairo) {
  const std::string path = ::testing::TempDir() + "/plimsoll_experiments.png";
  std::filesystem::remove(path);
  if (!experiment_picture(four_rows()).write_png(path)) GTEST_SKIP() << "there is no cairo";
  EXPECT_GT(std::filesystem::file_size(path), 10000u);
  std::filesystem::remove(path);
  EXPECT_THROW(experiment_picture(four_rows()).write_png("/nowhere/at/all.png"), Error);
}

}  // namespace
}  // namespace plimsoll
