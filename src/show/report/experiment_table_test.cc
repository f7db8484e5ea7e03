
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "show/report/experiment_report.h"
#include "show/report/testing/xml_fault.h"

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
                                       .date = "2026-11-24T10:00:00Z",
                                       .evaluation = {},
                                       .speeds = {rate}},
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

ExperimentOrigin origin() {
  return {.date = "2026-11-25T09:30:00Z", .version = "1.2.3", .build = "abc", .cpu = "a CPU", .driver = {}};
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(ExperimentTable, ComparesEachRowWithTheFirstAndNamesWhatWasRefused) {
  const std::string table = experiment_table(four_rows());
  EXPECT_TRUE(contains(table, "4.00 x   90 %")) << table;
  EXPECT_TRUE(contains(table, "0.75 x   50 %")) << table;
  EXPECT_TRUE(contains(table, "odd: odd is not in this version")) << table;
  EXPECT_TRUE(contains(table, "within 15 % of the measured one in 4 of 4 rows")) << table;
  EXPECT_TRUE(contains(table, "as calibration (x 0.91): 3 of 3 other rows within 15 %, largest error +0 %"))
      << table;
  size_t start = 0;
  for (size_t end = table.find('\n'); end != std::string::npos;
       start = end + 1, end = table.find('\n', start))
    EXPECT_LE(end - start, 100u) << table.substr(start, end - start);
}

// If the predictions use a calibration of the CPU, the table must say so and must not call the first row a calibration.
TEST(ExperimentTable, SaysWhetherPredictionsAreCalibrated) {
  std::vector<ExperimentRow> rows = four_rows();
  for (ExperimentRow& row : rows) {
    if (row.figures) row.figures->is_calibrated = true;
  }
  const std::string table = experiment_table(rows);
  EXPECT_FALSE(contains(table, "as calibration")) << table;
  EXPECT_TRUE(contains(table, "predictions use a calibration of this device; the first row ran at 0.91 x"))
      << table;
  EXPECT_TRUE(contains(table, "3 of 3 other rows")) << table;
}

// The names of the rows of a sweep have the same start and the same end. The table must show the whole names, so that a
// reader can distinguish the rows.
TEST(ExperimentTable, LongNamesAreShownWhole) {
  std::vector<ExperimentRow> rows;
  for (const char* size : {"8", "16"}) {
    for (const char* fp16 : {"0", "1"}) {
      const std::string name = std::string("per_device_train_batch_size=") + size + " fp16=" + fp16 +
                               " optim_args=momentum_dtype=bfloat16,variance_dtype=bfloat16";
      rows.push_back(row_of(name, 40, 6000, {name}));
    }
  }
  const std::string table = experiment_table(rows) + experiment_summary(rows);
  for (const char* words : {"\n  per_device_train_batch_size=16 fp16=1\n    "
                            "optim_args=momentum_dtype=bfloat16,variance_dtype=bfloat16\n",
                            "\n  per_device_train_batch_size=8 fp16=0\n"})
    EXPECT_TRUE(contains(table, words)) << words << " in " << table;
  EXPECT_FALSE(contains(table, "..")) << table;
  // Long arguments must not move the numbers out of their columns.
  const size_t first = table.find("   12.8 ");
  ASSERT_NE(first, std::string::npos) << table;
  EXPECT_EQ(first - table.rfind('\n', first) - 1, 38u) << table;
}

TEST(ExperimentSummary, CountsOnlyRowsThatChangeOneThing) {
  const std::string summary = experiment_summary(four_rows());
  EXPECT_TRUE(contains(summary, "half")) << summary;
  EXPECT_FALSE(contains(summary, "both  ")) << summary;
  EXPECT_TRUE(contains(summary, "fastest: unclear, rows that ran fewer than 3 times")) << summary;
  EXPECT_TRUE(contains(summary, "smallest: both,") && contains(summary, "2500 MiB")) << summary;
  EXPECT_TRUE(contains(summary, "run once")) << summary;
  EXPECT_FALSE(contains(summary, "costs")) << "there is no verdict on speed without a spread: " << summary;
  EXPECT_EQ(experiment_summary({four_rows().back()}), "");
}

// Returns rows that were run three times: at the median speed, and at speeds that are lower and higher by the fraction `spread`.
std::vector<ExperimentRow> repeated_rows(double spread) {
  std::vector<ExperimentRow> rows = four_rows();
  rows.pop_back();
  for (ExperimentRow& row : rows) {
    const ExperimentFigures once = *row.figures;
    row.figures->speeds.clear();
    for (const double share : {1 - spread, 1.0, 1 + spread}) {
      ExperimentFigures run = once;
      run.samples_per_s *= share;
      add_run(*row.figures, run);
    }
  }
  return rows;
}

TEST(ExperimentSummary, GivesAVerdictOnlyBeyondTheSpread) {
  const std::string steady = experiment_summary(repeated_rows(0.02));
  EXPECT_TRUE(contains(steady, "      yes     4.00 x   4%")) << steady;
  EXPECT_TRUE(contains(steady, "    costs     0.75 x   4%")) << steady;
  EXPECT_FALSE(contains(steady, "differ by more than")) << steady;
  EXPECT_TRUE(contains(steady, "fastest: half, 160 samples/s; smallest: both, 2500 MiB")) << steady;
  const std::string noisy = experiment_summary(repeated_rows(0.15));
  EXPECT_TRUE(contains(noisy, "      yes     4.00 x  30%")) << noisy;
  EXPECT_TRUE(contains(noisy, "  unclear     0.75 x  30%")) << noisy;
  EXPECT_TRUE(contains(noisy, "measure them again with --rerun\n  'vanilla;half;small;both'")) << noisy;
}

TEST(ExperimentSummary, NamesNoRowThatIsNoBetterThanAnother) {
  const std::string noisy = experiment_summary(repeated_rows(0.2));
  EXPECT_TRUE(contains(noisy, "fastest: unclear, the best rows differ by less than their spread")) << noisy;
  std::vector<ExperimentRow> rows = repeated_rows(0.02);
  for (ExperimentRow& row : rows) row.figures->measured_bytes = int64_t{25} << 20;
  rows[0].figures->measured_bytes += int64_t{1} << 20;
  const std::string alike = experiment_summary(rows);
  EXPECT_TRUE(contains(alike, "smallest: unclear, several rows need about 25 MiB")) << alike;
}

TEST(ExperimentRuns, MedianMaximumAndSpread) {
  ExperimentFigures figures;
  const auto add = [&](double speed, int64_t bytes) {
    ExperimentFigures run;
    run.samples_per_s = speed;
    run.measured_bytes = bytes;
    add_run(figures, run);
  };
  add(10, 5);
  EXPECT_EQ(figures.samples_per_s, 10);
  add(12, 4);
  EXPECT_EQ(figures.samples_per_s, 11);
  EXPECT_FALSE(speed_spread(figures)) << "two runs have no spread";
  add(11, 7);
  EXPECT_EQ(figures.samples_per_s, 11);
  EXPECT_EQ(figures.measured_bytes, 7);
  EXPECT_NEAR(*speed_spread(figures), 1.0 / 11, 1e-12);
  add(2, 6);
  EXPECT_NEAR(*speed_spread(figures), 5 / 10.5, 1e-12);
  add(11, 6);
  // The spread ignores the slowest run (with the speed 2, an outlier) and the fastest run (12).
  EXPECT_EQ(figures.samples_per_s, 11);
  EXPECT_NEAR(*speed_spread(figures), 0.5 / 11, 1e-12);
  EXPECT_EQ(figures.speeds, (std::vector<double>{10, 12, 11, 2, 11}));
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
  rows[0].peer = PeerFigures{.samples_per_s = 20, .measured_bytes = 7, .refused = "x", .device = "cpu"};
  rows[1].figures->evaluation = {{"eval_loss", 0.5}};
  for (const ExperimentRow& row : rows) EXPECT_EQ(parse_experiment_row(experiment_row_json(row), "row"), row);
  rows[0].figures->loss = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(parse_experiment_row(experiment_row_json(rows[0]), "row").figures->loss));
  // Earlier versions wrote rows without the date and without "is_calibrated", so files without these fields must be readable.
  nlohmann::json older = experiment_row_object(rows[1]);
  older["figures"].erase("date");
  older["figures"].erase("is_calibrated");
  EXPECT_EQ(experiment_row_of(older).figures->date, "");
  older["figures"].erase("speeds");
  EXPECT_EQ(experiment_row_of(older).figures->speeds, (std::vector<double>{160})) << "it was run once";
  for (const char* broken : {"", "{}", "[1]", "{\"name\": 1}"}) {
    EXPECT_THROW(parse_experiment_row(broken, "row.json"), Error) << broken;
  }
}

TEST(ExperimentJson, SaysWhenWhereAndWhatItComesTo) {
  ExperimentOrigin made = origin();
  nlohmann::json json = nlohmann::json::parse(experiment_json(four_rows(), made));
  EXPECT_EQ(json.at("schema_version"), 2);
  EXPECT_EQ(json.at("date"), "2026-11-25T09:30:00Z");
  EXPECT_EQ(json.at("program").at("version"), "1.2.3");
  EXPECT_EQ(json.at("program").at("build"), "abc");
  EXPECT_EQ(json.at("machine").at("cpu"), "a CPU");
  EXPECT_TRUE(json.at("machine").at("gpu_driver").is_null());
  EXPECT_EQ(json.at("rows").size(), 5u);
  EXPECT_EQ(json.at("rows")[0].at("figures").at("date"), "2026-11-24T10:00:00Z");
  const nlohmann::json& summary = json.at("summary");
  EXPECT_EQ(summary.at("reference"), "vanilla");
  EXPECT_TRUE(summary.at("fastest").at("name").is_null()) << "the rows ran once";
  EXPECT_EQ(summary.at("smallest").at("name"), "both");
  EXPECT_EQ(summary.at("smallest").at("measured_bytes"), int64_t{2500} << 20);
  ASSERT_EQ(summary.at("alone").size(), 2u);
  EXPECT_EQ(summary.at("alone")[0].at("method"), "half");
  EXPECT_EQ(summary.at("alone")[0].at("speed"), 4.0);
  EXPECT_EQ(summary.at("alone")[1].at("memory"), 0.5);
  EXPECT_EQ(summary.at("predictions").at("within_15_percent"), 4);
  EXPECT_EQ(summary.at("predictions").at("is_calibrated"), false);
  made.driver = "580.1";
  json = nlohmann::json::parse(experiment_json({four_rows().back()}, made));
  EXPECT_EQ(json.at("machine").at("gpu_driver"), "580.1");
  EXPECT_TRUE(json.at("summary").is_null()) << "no row ran";
}

TEST(ExperimentCsv, HasALinePerRow) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[0].experiment.name = "a \"quoted\", name";
  const std::string csv = experiment_csv(rows);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_TRUE(contains(csv, "\"a \"\"quoted\"\", name\",12.8,40,,44,")) << csv;
}

TEST(ExperimentPicture, IsWellFormedAndNamesUnitsAndDevice) {
  const std::string svg = experiment_picture(four_rows(), origin()).svg();
  EXPECT_EQ(xml_fault(svg), "");
  for (const char* words : {"MiB", "samples/s", "a &quot;device&quot;", "bert &lt;large&gt;", "#0072B2",
                            "Plimsoll 1.2.3, 2026-11-25", "predicted before the run"})
    EXPECT_TRUE(contains(svg, words)) << words;
  EXPECT_FALSE(contains(svg, "#E69F00")) << "nobody else ran the rows";
  EXPECT_TRUE(contains(svg, "they failed: odd<")) << svg;
  EXPECT_EQ(xml_fault(experiment_picture({four_rows().back()}, origin()).svg()), "");
}

size_t count(const std::string& text, const std::string& words) {
  size_t found = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

TEST(ExperimentPicture, HasThePeersBars) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[0].peer = PeerFigures{.samples_per_s = 20, .measured_bytes = int64_t{12000} << 20, .refused = {}};
  rows[1].peer = PeerFigures{.samples_per_s = 0, .measured_bytes = 0, .refused = "no bitsandbytes here"};
  const std::string svg = experiment_picture(rows, origin()).svg();
  EXPECT_EQ(xml_fault(svg), "");
  // The colour of Trainer occurs three times: one bar in each of the two panels for the only row that Trainer ran, and
  // the legend.
  EXPECT_EQ(count(svg, "#E69F00"), 3u) << svg;
  EXPECT_EQ(count(svg, "#0072B2"), 9u) << svg;
  EXPECT_TRUE(contains(svg, "Trainer, measured")) << svg;
  // Trainer did not run three of the rows. For each of them, both panels show this text instead of a bar.
  EXPECT_EQ(count(svg, "not run by Trainer"), 6u) << svg;
}

TEST(ExperimentPicture, BreaksLongNames) {
  std::vector<ExperimentRow> rows = four_rows();
  rows[1].experiment.name = "per_device_train_batch_size=16 gradient_accumulation_steps=4 fp16=1";
  const std::string svg = experiment_picture(rows, origin()).svg();
  EXPECT_TRUE(contains(svg, ">per_device_train_batch_size=16<")) << svg;
  EXPECT_TRUE(contains(svg, ">gradient_accumulation_steps=4 fp16=1<")) << svg;
}

TEST(ExperimentPicture, IsTheSameAsPngWhereThereIsCairo) {
  const std::string path = ::testing::TempDir() + "/plimsoll_experiments.png";
  std::filesystem::remove(path);
  if (!experiment_picture(four_rows(), origin()).write_png(path)) GTEST_SKIP() << "cairo is not installed";
  EXPECT_GT(std::filesystem::file_size(path), 10000u);
  std::filesystem::remove(path);
  EXPECT_THROW(experiment_picture(four_rows(), origin()).write_png("/nowhere/at/all.png"), Error);
}

}  // namespace
}  // namespace plimsoll
