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
#include "tests/training/tiny_folder.h"
#include "train/run_setup.h"

namespace plimsoll::testing {
namespace {

using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

Arguments arguments_of(const Words& words) {
  return parse_arguments(words).arguments;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Without loss of generality a card that is not in this machine.
TEST(Fit, EveryAnswerForACardIsAPlanThatFits) {
  const Words words{"--config_name",    "bert-large-uncased",
                    "--max_seq_length", "512",
                    "--device",         "l4",
                    "--memory_limit",   "12GiB",
                    "--num_threads",    "1"};
  FitOptions options{.arguments = arguments_of(words), .effective_batch_size = 64};
  const FitReport report = fit_run(options);
  ASSERT_GE(report.rows.size(), 2u);
  int checked = 0;
  double last = 1e30;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    EXPECT_EQ(row.micro_batch * row.accumulation, 64);
    EXPECT_LE(row.samples_per_s, last) << "ranked by speed";
    last = row.samples_per_s;
    // The limits are those of the first twelve rows; three of them tell.
    if (checked == 3) continue;
    // plan_run has room for an evaluation too; one of a single sequence needs no more than training.
    const Words chosen = joined(joined(words, row.arguments), {"--per_device_eval_batch_size", "1"});
    const PlanReport plan = plan_run(arguments_of(chosen));
    EXPECT_TRUE(plan.fits) << row.micro_batch << " x " << row.accumulation;
    EXPECT_LE(row.total_bytes, int64_t{12} << 30);
    // That evaluation's captured programs: 4096 bytes an op, some 200 ops, 32 buckets.
    EXPECT_NEAR(static_cast<double>(plan.total_bytes), static_cast<double>(row.total_bytes), 32e6);
    EXPECT_GE(row.largest_batch, row.accumulation == 1 ? row.micro_batch : 1);
    EXPECT_GE(row.longest_sequence, 512);
    // One sequence more than the largest batch does not fit.
    Words more = joined(joined(words, row.arguments), {"--per_device_eval_batch_size", "1"});
    more = joined(more, {"--gradient_accumulation_steps", "1", "--per_device_train_batch_size"});
    // Room for those captured programs.
    const Words roomier{std::to_string(row.largest_batch), "--memory_limit", "12320MiB"};
    EXPECT_TRUE(plan_run(arguments_of(joined(more, roomier))).fits);
    EXPECT_FALSE(
        plan_run(arguments_of(joined(more, {std::to_string(row.largest_batch + row.largest_batch / 64 + 1)})))
            .fits);
    ++checked;
  }
  EXPECT_GE(checked, 2);
  // By one thread; a loaded machine is slower than the 200 plans a second that an idle one makes.
  EXPECT_GT(report.plans_per_s, 20);
  RecordProperty("plans_per_s", std::to_string(report.plans_per_s));
}

Plan planned(const Arguments& arguments, RunPurpose purpose) {
  PlanRequest request = prepare_run(arguments, purpose, Environment{}, posix_file_system()).request;
  request.evaluate = false;
  return build_plan(request);
}

// Methods whose rows fit, by name, each row's command taken by `train --dry_run` of a program of its own, and
// what it would hold as the row says: to the byte but for the data, which `fit` does not read.
std::set<std::string> check_commands(const FitReport& report, const Words& words, const TestFolder& folder) {
  std::set<std::string> methods;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    const Words taken = joined(joined(words, row.arguments), {"--output_dir", folder.path("out")});
    const Plan plan = planned(arguments_of(taken), RunPurpose::kTrain);
    Arguments without_data = arguments_of(taken);
    without_data.dataset_name.clear();
    const Plan told = planned(without_data, RunPurpose::kPlan);
    EXPECT_EQ(told.total_bytes(), row.total_bytes) << nlohmann::json(row.arguments);
    EXPECT_EQ(plan.arena_bytes, told.arena_bytes) << nlohmann::json(row.arguments);
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
    if (method.kind == "accumulation" || method.kind == "precision") continue;
    // This run is on a CPU.
    EXPECT_EQ(methods.contains(std::string(method.name)), method.not_on_cpu.empty()) << method.name;
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
    if (method.kind == "accumulation") continue;
    EXPECT_TRUE(methods.contains(std::string(method.name))) << method.name;
  }
  EXPECT_GE(methods.size(), 13u);
}

TEST(Fit, SaysWhatIsMissingWhereNothingFits) {
  FitOptions options{.arguments = arguments_of({"--config_name", "bert-large-uncased", "--max_seq_length",
                                                "512", "--device", "l4", "--memory_limit", "1500MiB"})};
  try {
    fit_run(options);
    FAIL() << "BERT-large in 1500 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit);
    for (const char* words : {"1500 MiB allowed", "needs ", "short by ", "--memory "})
      EXPECT_TRUE(contains(error.what(), words)) << error.what();
  }
}

TEST(Fit, RanksCardsByTheCostOfAnEpoch) {
  const TestFolder folder("fit_prices");
  std::ofstream(folder.path("prices")) << "# card, price an hour\nl4,0.8\nt4 0.35\n\nh200,4.0\n";
  const ProcessResult result = run_plimsoll(
      {"fit", "--config_name", "bert-base-uncased", "--device", "l4,t4,h200,3090", "--prices",
       folder.path("prices"), "--effective_batch_size", "32", "--epoch_samples", "50000", "--json"},
      folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json rows = nlohmann::json::parse(result.output).at("rows");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].at("device"), "3090") << "without a price it stands last";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LE(rows[i].at("epoch_cost").get<double>(), rows[i + 1].at("epoch_cost").get<double>());
    EXPECT_GT(rows[i].at("epoch_cost").get<double>(), 0);
  }
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
