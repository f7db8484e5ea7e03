// `plimsoll fit` for models of the size that people ask about: some hundred plans a test.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/fit.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// Without loss of generality a card that is not in this machine.
TEST(FitLarge, EveryAnswerForACardIsAPlanThatFits) {
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
  // How many a second, bench/plan says.
  EXPECT_GT(report.num_plans, checked);
}

TEST(FitLarge, SaysWhatIsMissingWhereNothingFits) {
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

TEST(FitLarge, RanksCardsByTheCostOfAnEpoch) {
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

}  // namespace
}  // namespace plimsoll::testing
