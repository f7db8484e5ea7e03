// `plimsoll fit`: its answers are plans that run, its refusals say what is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "plan/build/plan.h"
#include "plimsoll/fit.h"
#include "plimsoll/methods.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/training/tiny_folder.h"
#include "train/run_setup.h"

namespace plimsoll::testing {
namespace {

Plan planned(const Arguments& arguments, RunPurpose purpose) {
  PlanRequest request = prepare_run(arguments, purpose, Environment{}, posix_file_system()).request;
  request.evaluate = false;
  return build_plan(request);
}

// Methods whose rows fit, by name, each row's command taken by `train --dry_run` of a program of its own, and
// what it would hold as the row says, to the byte.
std::set<std::string> check_commands(const FitReport& report, const Words& words, const TestFolder& folder) {
  std::set<std::string> methods;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    const Words taken = joined(joined(words, row.arguments), {"--output_dir", folder.path("out")});
    const Plan plan = planned(arguments_of(taken), RunPurpose::kTrain);
    const Plan told = planned(arguments_of(taken), RunPurpose::kPlan);
    EXPECT_EQ(told.total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
    EXPECT_EQ(plan.arena_bytes, told.arena_bytes) << nlohmann::json(row.arguments);
    EXPECT_EQ(plan.total_bytes(), told.total_bytes()) << nlohmann::json(row.arguments);
    // A process for each method alone: sets are what was planned above.
    if (row.methods.size() < 2) {
      const ProcessResult result =
          run_plimsoll(joined(joined({"train"}, taken), {"--dry_run"}), folder.path("log"));
      EXPECT_EQ(result.exit_code, 0) << result.output;
    }
    methods.insert(row.methods.begin(), row.methods.end());
  }
  return methods;
}

Words tiny_words(const TestFolder& folder) {
  return {"--config_name",
          folder.path("model"),
          "--dataset_name",
          "dummy",
          "--dummy_seq_length",
          "32",
          "--dummy_num_samples",
          "64",
          "--max_seq_length",
          "32",
          "--use_cpu",
          "--num_threads",
          "1"};
}

TEST(Fit, TrainTakesEveryAnswerAndHoldsWhatItSays) {
  const TestFolder folder("fit_every");
  write_tiny_model(folder);
  const Words words = tiny_words(folder);
  const FitReport report =
      fit_run({.arguments = arguments_of(words), .effective_batch_size = 8, .with_other_paths = true});
  const std::set<std::string> methods = check_commands(report, words, folder);
  int expected = 0;
  for (const Method& method : method_table()) {
    if (method.kind == "accumulation" || method.kind == "loss" || method.kind == "precision") continue;
    // This run is on a CPU.
    EXPECT_EQ(methods.contains(std::string(method.name)),
              method.not_on_cpu.empty() && method.not_in_fit.empty())
        << method.name;
    ++expected;
  }
  EXPECT_GE(expected, 8);
  // A machine without products in bf16 says so, once.
  if (!methods.contains("bf16")) {
    EXPECT_TRUE(contains(report.refused, "bf16")) << report.refused;
  }
}

TEST(Fit, TrainTakesTheAnswersOfALimit) {
  const TestFolder folder("fit_train");
  write_tiny_model(folder);
  const Words words = tiny_words(folder);
  // Between what the smallest and the largest split need.
  FitOptions options{.arguments = arguments_of(words), .effective_batch_size = 64, .with_other_paths = true};
  const FitReport all = fit_run(options);
  ASSERT_FALSE(all.rows.empty());
  int64_t least = all.rows[0].smallest_bytes;
  for (const FitRow& row : all.rows) least = std::min(least, row.smallest_bytes);
  const int64_t limit = least + (all.rows[0].total_bytes - least) / 2 + 100000;
  options.arguments.memory_limit = limit;
  const Words limited = joined(words, {"--memory_limit", std::to_string(limit)});
  EXPECT_GE(check_commands(fit_run(options), limited, folder).size(), 1u);
}

// A card that is not here: `plan` goes the way of `train`.
TEST(Fit, EveryMethodOnACardIsPlannedToTheByte) {
  const TestFolder folder("fit_card");
  write_tiny_model(folder);
  const Words words{"--config_name",    folder.path("model"),
                    "--max_seq_length", "32",
                    "--device",         "h200",
                    "--num_threads",    "1"};
  const FitReport report =
      fit_run({.arguments = arguments_of(words), .effective_batch_size = 8, .with_other_paths = true});
  std::set<std::string> methods;
  for (const FitRow& row : report.rows) {
    ASSERT_GT(row.micro_batch, 0);
    const Plan plan = planned(arguments_of(joined(words, row.arguments)), RunPurpose::kPlan);
    EXPECT_EQ(plan.total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
    methods.insert(row.methods.begin(), row.methods.end());
  }
  for (const Method& method : method_table()) {
    if (method.kind == "accumulation" || method.kind == "loss") continue;
    EXPECT_EQ(methods.contains(std::string(method.name)), method.not_in_fit.empty()) << method.name;
  }
  EXPECT_GE(methods.size(), 13u);
}

TEST(Fit, RefusesWhatItCannotRead) {
  const TestFolder folder("fit_words");
  std::ofstream(folder.path("prices")) << "l4,much\n";
  std::ofstream(folder.path("cards")) << "l4,1\nl5,1\n";
  const auto refused = [&](const Words& words, const std::string& expected) {
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(contains(result.output, expected)) << result.output;
  };
  refused({"fit", "--prices", folder.path("prices")}, "prices:1: expected a card and its price");
  refused({"fit", "--prices", folder.path("cards")}, "cards:2: 'l5' is no card");
  refused({"fit", "--effective_batch_size", "0"}, "expected a whole number from 1 on");
  refused({"fit", "--config_name", "bert-base-uncased", "--device", "l5"}, "--device l5");
  refused({"fit", "--memory"}, "needs a value");
}

}  // namespace
}  // namespace plimsoll::testing
