// The expected texts are the output of Python 3.11's json.dumps and of transformers' log_metrics for the same
// values.
#include "show/report/result_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

TEST(ResultFiles, EqualPythonsJson) {
  const MetricMap metrics{{"train_loss", 0.4321999967098236},
                          {"epoch", 3.0},
                          {"train_samples", 3668},
                          {"learning_rate", 1e-05},
                          {"total_flos", 1.5e16},
                          {"train_runtime", 12.5},
                          {"tiny", 5e-324},
                          {"tenth", 0.1},
                          {"big", 123456789012345680.0}};
  EXPECT_EQ(results_json(metrics),
            "{\n"
            "    \"big\": 1.2345678901234568e+17,\n"
            "    \"epoch\": 3.0,\n"
            "    \"learning_rate\": 1e-05,\n"
            "    \"tenth\": 0.1,\n"
            "    \"tiny\": 5e-324,\n"
            "    \"total_flos\": 1.5e+16,\n"
            "    \"train_loss\": 0.4321999967098236,\n"
            "    \"train_runtime\": 12.5,\n"
            "    \"train_samples\": 3668\n"
            "}");
  EXPECT_EQ(results_json({}), "{}");
  // These metrics belong to MNLI's second set and have run_glue's suffix.
  EXPECT_EQ(results_json({{"predict_samples_mm", 2}}), "{\n    \"predict_samples_mm\": 2\n}");
}

TEST(ResultFiles, WhatIsNotFiniteIsNull) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(results_json({{"eval_loss", nan}}), "{\n    \"eval_loss\": null\n}");
  EXPECT_EQ(log_line({.step = 1, .epoch = 0.5, .values = {{"grad_norm", HUGE_VAL}}}),
            "{\"epoch\": 0.5, \"grad_norm\": null, \"step\": 1}\n");
}

TEST(ResultFiles, TrainerStateAndItsHistory) {
  const auto written = [](const nlohmann::json& state, const LogHistory& history) {
    std::string text;
    write_trainer_state(state, history, [&](std::string_view piece) { text += piece; });
    return text;
  };
  LogHistory history;
  EXPECT_EQ(written({{"global_step", 20}}, history), "{\n  \"global_step\": 20,\n  \"log_history\": []\n}\n");
  history.push_back({.step = 10, .epoch = 0.25, .values = {{"loss", 1.5}, {"learning_rate", 4.5e-05}}});
  history.push_back({.step = 20, .epoch = 0.5, .values = {{"eval_loss", 1.0}, {"eval_samples", 408}}});
  EXPECT_EQ(written({{"global_step", 20}, {"best_metric", nullptr}}, history),
            "{\n"
            "  \"best_metric\": null,\n"
            "  \"global_step\": 20,\n"
            "  \"log_history\": [\n"
            "    {\n"
            "      \"epoch\": 0.25,\n"
            "      \"learning_rate\": 4.5e-05,\n"
            "      \"loss\": 1.5,\n"
            "      \"step\": 10\n"
            "    },\n"
            "    {\n"
            "      \"epoch\": 0.5,\n"
            "      \"eval_loss\": 1.0,\n"
            "      \"eval_samples\": 408,\n"
            "      \"step\": 20\n"
            "    }\n"
            "  ]\n"
            "}\n");
}

TEST(ResultFiles, EveryLogLineIsJson) {
  const std::string line =
      log_line({.step = 7, .epoch = 1.0 / 3, .values = {{"loss", 0.1}, {"grad_norm", 1e-7}}});
  EXPECT_EQ(line, "{\"epoch\": 0.3333333333333333, \"grad_norm\": 1e-07, \"loss\": 0.1, \"step\": 7}\n");
  EXPECT_EQ(nlohmann::json::parse(line)["step"], 7);
  const LogRecord read = parse_log_line(line);
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.epoch, 1.0 / 3);
  EXPECT_EQ(read.values, (MetricMap{{"loss", 0.1}, {"grad_norm", 1e-7}}));
  EXPECT_TRUE(std::isnan(parse_log_line("{\"epoch\": 1.0, \"loss\": null, \"step\": 1}").values.at("loss")));
}

TEST(ResultFiles, RefusesOtherLinesThanRecords) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"step\": 1, ", "column 12: not valid JSON"},
      {"[1]", "found JSON of type array"},
      {"{\"step\": null}", "'step' is of type null"},
      {"{\"step\": \"1\"}", "'step' is of type string"},
      {"{\"step\": 1, \"loss\": [2]}", "'loss' is of type array"},
  };
  for (const auto& [line, reason] : cases) {
    try {
      parse_log_line(line);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      EXPECT_TRUE(std::string(error.what()).starts_with(reason)) << error.what();
    }
  }
}

TEST(ResultFiles, WordsOfARecordComeBack) {
  const LogRecord record{.step = 7,
                         .epoch = 1,
                         .values = {{"gpu_power_w", 698.5}},
                         .words = {{"gpu_throttle", "power cap, \"idle\""}}};
  const std::string line = log_line(record);
  EXPECT_EQ(line,
            "{\"epoch\": 1.0, \"gpu_power_w\": 698.5, \"gpu_throttle\": \"power cap, \\\"idle\\\"\", "
            "\"step\": 7}\n");
  EXPECT_EQ(parse_log_line(line).words, record.words);
  LogHistory history;
  history.push_back({.step = 6, .epoch = 0.5, .values = {{"loss", 1}}});
  history.push_back(record);
  history.push_back({.step = 8, .epoch = 2, .values = {}, .words = {{"gpu_throttle", "none"}}});
  EXPECT_TRUE(history[0].words.empty());
  EXPECT_EQ(history[1].words, record.words);
  EXPECT_EQ(history[1].values, record.values);
  EXPECT_EQ(history[2].words, (WordMap{{"gpu_throttle", "none"}}));
  EXPECT_TRUE(history[2].values.empty());
}

TEST(MetricsBlock, IsTrainers) {
  EXPECT_EQ(metrics_block("train", {{"epoch", 3.0},
                                    {"total_flos", 603979776000000.0},
                                    {"train_loss", 0.36281249999},
                                    {"train_runtime", 3723.4567},
                                    {"train_samples", 3668},
                                    {"train_samples_per_second", 2.955},
                                    {"train_steps_per_second", 0.00005}}),
            "***** train metrics *****\n"
            "  epoch                    =        3.0\n"
            "  total_flos               =   562500GF\n"
            "  train_loss               =     0.3628\n"
            "  train_runtime            = 1:02:03.45\n"
            "  train_samples            =       3668\n"
            "  train_samples_per_second =      2.955\n"
            "  train_steps_per_second   =     0.0001\n");
}

TEST(MetricsBlock, ShowsWhatIsRare) {
  EXPECT_EQ(metrics_block("eval", {{"eval_mcc", std::nan("")},
                                   {"eval_runtime", 90061.999},
                                   {"init_mem_cpu_alloc_delta", 1364197376.0},
                                   {"eval_samples", 408},
                                   {"eval_samples_mm", 409}}),
            "***** eval metrics *****\n"
            "  eval_mcc                 =               nan\n"
            "  eval_runtime             = 1 day, 1:01:01.99\n"
            "  eval_samples             =               408\n"
            "  eval_samples_mm          =               409\n"
            "  init_mem_cpu_alloc_delta =            1301MB\n");
}

}  // namespace
}  // namespace plimsoll
