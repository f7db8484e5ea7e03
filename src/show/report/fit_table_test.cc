#include "show/report/fit_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace plimsoll {
namespace {

FitRow row_of(std::vector<std::string> methods, double samples_per_s, MethodEffect effect) {
  FitRow row{.device = "l4", .methods = std::move(methods), .effect = effect, .arguments = {}};
  row.micro_batch = 4;
  row.accumulation = 2;
  row.total_bytes = int64_t{2000} << 20;
  row.samples_per_s = samples_per_s;
  row.relative_speed = samples_per_s / 50;
  for (const std::string& method : row.methods) row.arguments.push_back("--" + method);
  return row;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// Returns the text without line breaks, so that a test finds a sentence wherever it was wrapped.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string joined;
  for (std::string word; words >> word;) joined += " " + word;
  return joined + " ";
}

size_t count_of(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

const FitTableContext kOneDevice{.subject = "a model, on l4",
                                 .command = "--model_name_or_path MODEL --train_file FILE",
                                 .to_fill_in = "MODEL: a folder; FILE: the training data"};

// Several lists of methods end with the same names. If the table printed only the end of a list, rows would look the same.
TEST(FitTable, EveryRowCanBeToldFromTheOthers) {
  FitReport report;
  for (const char* precision : {"bf16", "fp16", "pure_bf16"}) {
    for (const char* update : {"paged_adamw_8bit", "bf16_moments"})
      report.rows.push_back(
          row_of({precision, "checkpointing", "optimizer_in_backward", update}, 50, MethodEffect::kRounding));
  }
  std::set<std::string> rows;
  std::string row;
  for (const std::string& line : lines_of(fit_table(report, kOneDevice))) {
    EXPECT_LE(line.size(), 80u) << line;
    if (line.starts_with("trains: ") || line.starts_with("vs. ")) break;
    if (contains(line, " x 2 ")) {
      if (!row.empty()) rows.insert(row);
      row = line.substr(5);  // the line without the first column, which contains the rank
    } else if (!row.empty()) {
      row += line;
    }
  }
  rows.insert(row);
  EXPECT_EQ(rows.size(), report.rows.size());
  for (const std::string& each : rows) EXPECT_TRUE(contains(each, "optimizer_in_backward,")) << each;
}

TEST(FitTable, SaysHowEachRowTrainsAndWhatSpeedIsRelativeTo) {
  FitReport report;
  report.rows = {row_of({"pure_bf16", "adamw_8bit"}, 60, MethodEffect::kRounding),
                 row_of({"bf16"}, 55, MethodEffect::kRounding), row_of({"sgd"}, 52, MethodEffect::kOtherPath),
                 row_of({}, 50, MethodEffect::kSameSums)};
  std::string text = fit_table(report, kOneDevice);
  for (const char* words :
       {" rounded* ", " rounded ", " other ", " same ", "rounded*, without fp32 masters of the weights",
        "vs. as is: speed relative to the run without further methods;"})
    EXPECT_TRUE(contains(in_one_line(text), words)) << words << " in\n" << text;
  report.rows.back().micro_batch = 0;
  report.rows.back().smallest_bytes = int64_t{7000} << 20;
  text = fit_table(report, kOneDevice);
  EXPECT_TRUE(contains(in_one_line(text), "vs. first: speed relative to the first row")) << text;
  EXPECT_TRUE(contains(text, "does not fit: it needs at least 7000 MiB")) << text;
  EXPECT_FALSE(contains(text, " same ")) << text;
  report.rows.resize(1);
  report.rows[0].methods = {"adamw_8bit"};
  EXPECT_FALSE(contains(fit_table(report, kOneDevice), "masters"));
}

TEST(FitTable, WhatIsToBeFilledInIsSaidOnce) {
  FitReport report;
  for (int i = 0; i < 3; ++i) report.rows.push_back(row_of({"bf16"}, 50 - i, MethodEffect::kRounding));
  report.searched = "searched: 2 sets";
  const std::string text = fit_table(report, kOneDevice);
  EXPECT_EQ(count_of(text, "FILE: the training data"), 1u) << text;
  EXPECT_TRUE(contains(text, "searched: 2 sets\n")) << text;
  const nlohmann::json json = nlohmann::json::parse(fit_json(report, kOneDevice));
  EXPECT_EQ(json.at("rows")[0].at("trains"), "rounded");
  EXPECT_EQ(json.at("searched"), "searched: 2 sets");
  EXPECT_EQ(json.at("rows")[0].at("command"),
            "plimsoll train --model_name_or_path MODEL --train_file FILE --bf16");
}

// The table shows the first twelve rows, and in addition slower rows that change training less than all rows before
// them. Here these are the fastest row that changes only roundings, and the run without any method.
TEST(FitTable, TheFastestThatTrainsAlikeIsThereHoweverSlow) {
  FitReport report;
  for (int i = 0; i < 14; ++i) report.rows.push_back(row_of({"sgd"}, 50 - i, MethodEffect::kOtherPath));
  report.rows.push_back(row_of({"tf32"}, 20, MethodEffect::kRounding));
  report.rows.push_back(row_of({"adamw_8bit"}, 15, MethodEffect::kRounding));
  report.rows.push_back(row_of({}, 10, MethodEffect::kSameSums));
  const std::string text = fit_table(report, kOneDevice);
  EXPECT_TRUE(contains(text, "  14 ")) << text;
  EXPECT_FALSE(contains(text, "  15 ")) << text;
  EXPECT_TRUE(contains(text, "tf32")) << text;
  EXPECT_TRUE(contains(text, "as it is")) << text;
  EXPECT_FALSE(contains(text, "adamw_8bit")) << text;
}

TEST(FitTable, CardsThatRunTheSameWordsShareALine) {
  FitReport report;
  for (const char* card : {"h200", "l4", "t4", "a10g"}) {
    const bool is_old = card[0] == 't' || card[0] == 'a';
    report.rows.push_back(row_of({is_old ? "fp16" : "bf16"}, 50, MethodEffect::kRounding));
    report.rows.back().device = card;
  }
  FitTableContext context = kOneDevice;
  context.compares_cards = true;
  context.epoch_samples = 1000;
  const std::string text = fit_table(report, context);
  EXPECT_TRUE(contains(text, "on h200, l4: --bf16\n")) << text;
  EXPECT_TRUE(contains(text, "on t4, a10g: --fp16\n")) << text;
  EXPECT_EQ(count_of(text, "plimsoll train"), 1u) << text;
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80u) << line;
}

// Rows that are a tie share a letter. A sentence must explain the letters, but only if the table has a tie.
TEST(FitTable, NamesTies) {
  FitReport report;
  const std::vector<int> ties{1, 1, 2, 3, 3};
  for (size_t i = 0; i < ties.size(); ++i) {
    report.rows.push_back(row_of({"bf16"}, 50 - static_cast<double>(i), MethodEffect::kRounding));
    report.rows.back().tie = ties[i];
  }
  std::string text = fit_table(report, kOneDevice);
  for (const char* words :
       {"\n  1a ", "\n  2a ", "\n  3  ", "\n  4b ", "\n  5b ", "differ by less than 15 %"})
    EXPECT_TRUE(contains(text, words)) << words << " in\n" << text;
  EXPECT_EQ(nlohmann::json::parse(fit_json(report, kOneDevice)).at("rows")[4].at("tie"), 3);
  report.rows.erase(report.rows.begin() + 1);
  report.rows.resize(3);
  text = fit_table(report, kOneDevice);
  EXPECT_FALSE(contains(text, "15 %")) << text;
  EXPECT_FALSE(contains(text, "1a")) << text;
}

// Within a tie, rows that change training more are listed later. The fastest row must be shown even if it is therefore
// the last row of its tie, and the earlier rows of the tie already fill the table.
TEST(FitTable, TheFastestIsThereHoweverMuchItChanges) {
  FitReport report;
  for (int i = 0; i < 14; ++i) {
    report.rows.push_back(row_of({"bf16"}, 50 - i * 0.1, MethodEffect::kRounding));
    report.rows.back().tie = 1;
  }
  report.rows.push_back(row_of({"sgd"}, 51, MethodEffect::kOtherPath));
  report.rows.back().tie = 1;
  const std::string text = fit_table(report, kOneDevice);
  EXPECT_TRUE(contains(text, "\n 13a ")) << text;
  EXPECT_TRUE(contains(text, "sgd")) << text;
}

// Released programs do not support some cards. For such a card, the printed commands must plan and not train.
TEST(FitTable, PlanOnlyCardsAreOnlyPlanned) {
  FitReport report;
  report.rows = {row_of({"fp16"}, 50, MethodEffect::kRounding),
                 row_of({"fp16"}, 40, MethodEffect::kRounding)};
  report.rows[0].device = "v100-16gb";
  report.rows[0].is_plan_only = true;
  report.rows[1].device = "t4";
  report.plan_only = "plan only: v100-16gb (7.0)";
  FitTableContext context = kOneDevice;
  context.compares_cards = true;
  context.epoch_samples = 1000;
  std::string text = fit_table(report, context);
  EXPECT_TRUE(contains(text, "plan only: v100-16gb (7.0)\n")) << text;
  EXPECT_TRUE(contains(text, "on t4: --fp16\n")) << text;
  EXPECT_FALSE(contains(text, "on v100")) << text;
  report.rows.pop_back();
  EXPECT_FALSE(contains(fit_table(report, context), "plimsoll train"));
  context.compares_cards = false;
  context.is_plan_only = true;
  text = fit_table(report, context);
  EXPECT_TRUE(contains(text, "to plan the first:\n  plimsoll plan ")) << text;
  EXPECT_FALSE(contains(text, "plimsoll train")) << text;
}

}  // namespace
}  // namespace plimsoll
