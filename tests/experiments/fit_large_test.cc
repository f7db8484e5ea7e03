// Tests `plimsoll fit` with models of realistic size: some hundred plans per test.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plan/compile/op_times.h"
#include "plimsoll/fit.h"
#include "plimsoll/plan.h"
#include "tests/bad_input/binary.h"
#include "tests/experiments/words.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// The test plans for an L4 GPU and runs nothing, so the machine need not have that GPU.
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
  int tie = 0;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    EXPECT_EQ(row.micro_batch * row.accumulation, 64);
    EXPECT_LE(row.samples_per_s, last) << "ranked by speed, except for ties";
    if (row.tie != tie) last = row.samples_per_s * (1 + kEstimateError);
    tie = row.tie;
    // `fit` computes largest_batch and longest_sequence only for the first twelve sets of methods. To save
    // time, the test checks three of them.
    if (checked == 3) continue;
    // plan_run() also plans an evaluation. One sequence per evaluation batch ensures that the evaluation does
    // not need more memory than training.
    const Words chosen = joined(joined(words, row.arguments), {"--per_device_eval_batch_size", "1"});
    const PlanReport plan = plan_run(arguments_of(chosen));
    EXPECT_TRUE(plan.fits) << row.micro_batch << " x " << row.accumulation;
    EXPECT_LE(row.total_bytes, int64_t{12} << 30);
    // The tolerance covers the captured programs (CUDA graphs) of the evaluation, which `fit` does not plan:
    // 4096 bytes per op, about 200 ops, 32 padded batch sizes.
    EXPECT_NEAR(static_cast<double>(plan.total_bytes), static_cast<double>(row.total_bytes), 32e6);
    EXPECT_GE(row.largest_batch, row.accumulation == 1 ? row.micro_batch : 1);
    EXPECT_GE(row.longest_sequence, 512);
    // The plan must fit with a batch of `largest_batch` sequences, and not with one that is larger by 1/64 and one sequence.
    Words more = joined(joined(words, row.arguments), {"--per_device_eval_batch_size", "1"});
    more = joined(more, {"--gradient_accumulation_steps", "1", "--per_device_train_batch_size"});
    // The limit is a little higher than 12 GiB, because plan_run() also counts the captured programs (CUDA
    // graphs) of the evaluation.
    const Words roomier{std::to_string(row.largest_batch), "--memory_limit", "12320MiB"};
    EXPECT_TRUE(plan_run(arguments_of(joined(more, roomier))).fits);
    EXPECT_FALSE(
        plan_run(arguments_of(joined(more, {std::to_string(row.largest_batch + row.largest_batch / 64 + 1)})))
            .fits);
    ++checked;
  }
  EXPECT_GE(checked, 2);
  // `fit` must have made more plans than this test checked. The number of plans per second is measured by
  // bench/plan and not here.
  EXPECT_GT(report.num_plans, checked);
}

// Returns arguments with random training data, for which a run makes no evaluation.
Words on_h200(const std::string& limit, const Words& more = {}) {
  return joined({"--config_name", "bert-large-uncased", "--dataset_name", "dummy", "--dummy_seq_length",
                 "512", "--dummy_num_samples", "64", "--max_seq_length", "512", "--device", "h200",
                 "--num_threads", "1", "--memory_limit", limit},
                more);
}

FitReport fit_of_one(const Words& words) {
  return fit_run({.arguments = arguments_of(words), .effective_batch_size = 1});
}

std::string refusal_of(const Words& words) {
  try {
    fit_of_one(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWillNotFit);
    return error.what();
  }
  return {};
}

// Returns the number between `words` and the following " MiB (" in a text.
int64_t mib_after(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? 0 : std::stoll(text.substr(at + words.size()));
}

Words split_words(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// A run with the arguments `smallest` fits into a memory limit of 1300 MiB. `fit` must find sets of methods that fit into this limit, and
// `plan` must confirm that they do.
TEST(FitLarge, FindsWhatFitsWhereTheSmallestRunDoes) {
  const Words smallest{"--dtype",
                       "bfloat16",
                       "--gradient_checkpointing",
                       "--optimizer_in_backward",
                       "--max_grad_norm",
                       "0",
                       "--offload_optimizer",
                       "--offload_activations",
                       "--per_device_train_batch_size",
                       "1"};
  const PlanReport known = plan_run(arguments_of(on_h200("1300MiB", smallest)));
  ASSERT_TRUE(known.fits) << known.total_bytes;
  const FitReport report = fit_of_one(on_h200("1300MiB", {"--max_grad_norm", "0"}));
  ASSERT_GE(report.rows.size(), 3u);
  int checked = 0;
  for (const FitRow& row : report.rows) {
    if (row.micro_batch == 0) continue;
    const PlanReport plan =
        plan_run(arguments_of(on_h200("1300MiB", joined({"--max_grad_norm", "0"}, row.arguments))));
    EXPECT_TRUE(plan.fits) << nlohmann::json(row.methods);
    EXPECT_EQ(plan.total_bytes, row.total_bytes) << nlohmann::json(row.methods);
    ++checked;
  }
  EXPECT_GE(checked, 3);
  const FitReport all = fit_run(
      {.arguments = arguments_of(on_h200("1300MiB")), .effective_batch_size = 1, .with_other_paths = true});
  ASSERT_GE(all.rows.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(plan_run(arguments_of(on_h200("1300MiB", all.rows[i].arguments))).fits)
        << nlohmann::json(all.rows[i].methods);
    EXPECT_EQ(all.rows[i].effect, MethodEffect::kOtherPath);
  }
}

// If nothing fits, the refusal states the smallest limit that would be enough. The test checks that this limit
// fits, that one MiB less does not, and that the suggested arguments fit.
TEST(FitLarge, SaysWhatIsMissingWhereNothingFits) {
  const std::string text = refusal_of(on_h200("1300MiB"));
  for (const char* words : {"nothing fits: 1300 MiB allowed", "short by ", "--memory ", "searched: "})
    EXPECT_TRUE(contains(text, words)) << text;
  const int64_t needed = mib_after(text, "1 sequence of 512 tokens per step, needs ");
  EXPECT_GT(needed, 1300);
  EXPECT_LT(needed, 1941) << "both offloads at once";
  EXPECT_TRUE(contains(text, std::to_string(needed - 1300) + " MiB")) << text;
  EXPECT_GE(fit_of_one(on_h200(std::to_string(needed) + "MiB")).rows.front().micro_batch, 1);
  EXPECT_EQ(mib_after(refusal_of(on_h200(std::to_string(needed - 1) + "MiB")),
                      "1 sequence of 512 tokens per step, needs "),
            needed);
  int hints = 0;
  for (const char* how : {"without clipping", "with --all_methods"}) {
    const size_t at = text.find(how);
    ASSERT_NE(at, std::string::npos) << text;
    const size_t begin = text.find("which fits: ", at);
    ASSERT_NE(begin, std::string::npos) << text;
    const std::string words = text.substr(begin + 12, text.find('\n', begin) - begin - 12);
    EXPECT_TRUE(plan_run(arguments_of(on_h200("1300MiB", split_words(words)))).fits) << words;
    ++hints;
  }
  EXPECT_EQ(hints, 2);
}

// Returns the suggestions in the lines below "fits with" of a refusal.
std::vector<Words> fitting_words(const std::string& text) {
  std::vector<Words> found;
  size_t at = text.find("fits with");
  at = text.find('\n', at);
  while (at != std::string::npos && text.compare(at, 6, "\n    -") == 0) {
    const size_t end = text.find('\n', at + 1);
    const std::string line = text.substr(at + 5, end == std::string::npos ? end : end - at - 5);
    found.push_back(split_words(line.substr(0, line.find("  "))));
    at = end;
  }
  return found;
}

// Tests a refusal of `train`: if no single change is enough, it suggests sets of methods.
TEST(Refusal, GivesWordsWithWhichTheRunFits) {
  struct Case {
    Words words;
    std::vector<std::string> expected;  // each text must occur in a line of the refusal
  };
  const Words four{"--per_device_train_batch_size", "4"};
  const Words labels{"--config_name",
                     "bert-base-uncased",
                     "--num_labels",
                     "1000000",
                     "--device",
                     "h200",
                     "--num_threads",
                     "1",
                     "--max_seq_length",
                     "32",
                     "--memory_limit",
                     "16500MiB",
                     "--per_device_train_batch_size",
                     "512"};
  for (const Case& each : {Case{on_h200("3GiB", four), {"--optim adamw_8bit", "--dtype bfloat16"}},
                           Case{on_h200("5GiB", four), {"--optim adamw_8bit", "--offload_optimizer"}},
                           Case{labels, {"--chunked_loss always", "--offload_activations"}}}) {
    std::string text;
    try {
      require_fit(arguments_of(each.words));
    } catch (const Error& error) {
      text = error.what();
    }
    const std::vector<Words> found = fitting_words(text);
    ASSERT_GE(found.size(), 2u) << text;
    for (const Words& words : found)
      EXPECT_TRUE(plan_run(arguments_of(joined(each.words, words))).fits) << nlohmann::json(words);
    for (const std::string& expected : each.expected) EXPECT_TRUE(contains(text, expected)) << text;
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
