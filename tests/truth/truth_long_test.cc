// The plan against the truth: two hundred small runs, and large ones that must also not be predicted too
// high. Cases are independent of each other: GTEST_TOTAL_SHARDS splits them over processes.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/truth/random_run.h"

namespace plimsoll::testing {
namespace {

constexpr uint64_t kRuns = 200;
constexpr uint64_t kCases = 25;

class TruthLong : public ::testing::TestWithParam<uint64_t> {};

// A share of the runs, evenly drawn.
TEST_P(TruthLong, TwoHundredRunsHoldWhatWasPlanned) {
  const TestFolder folder("truth_long_" + std::to_string(GetParam()));
  for (uint64_t number = GetParam(); number < kRuns; number += kCases) {
    const std::vector<std::string> words = random_run(folder, 2, number);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    SCOPED_TRACE(line);
    const MemoryTruth truth = memory_of(folder, words);
    expect_truth(truth);
    std::printf("run %3llu: arena %lld, high water %lld, beside the arena predicted %lld, measured %lld\n",
                static_cast<unsigned long long>(number), static_cast<long long>(truth.arena_bytes),
                static_cast<long long>(truth.high_water_bytes), static_cast<long long>(truth.constant_bytes),
                static_cast<long long>(truth.measured_bytes - truth.arena_bytes));
    std::fflush(stdout);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TruthLong, ::testing::Range(uint64_t{0}, kCases));

// Runs over 500 MB whose batches all have the largest size.
TEST(TruthLarge, RunsUseNineTenthsOfWhatWasPredicted) {
  const TestFolder folder("truth_large");
  std::filesystem::create_directories(folder.path("model"));
  std::ofstream(folder.path("model") + "/config.json")
      << "{\"model_type\": \"bert\", \"vocab_size\": 30522, \"hidden_size\": 512, \"num_hidden_layers\": 4, "
         "\"num_attention_heads\": 8, \"intermediate_size\": 2048, \"max_position_embeddings\": 512}";
  for (const char* optimizer : {"adamw_torch", "sgd"}) {
    SCOPED_TRACE(optimizer);
    const MemoryTruth truth = memory_of(folder, {"train",
                                                 "--config_name",
                                                 folder.path("model"),
                                                 "--dataset_name",
                                                 "dummy",
                                                 "--dummy_num_samples",
                                                 "32",
                                                 "--dummy_seq_length",
                                                 "256",
                                                 "--per_device_train_batch_size",
                                                 "16",
                                                 "--optim",
                                                 optimizer,
                                                 "--max_steps",
                                                 "2",
                                                 "--save_strategy",
                                                 "no",
                                                 "--num_threads",
                                                 "2",
                                                 "--output_dir",
                                                 folder.path("out")});
    expect_truth(truth);
    EXPECT_GT(truth.predicted_bytes, int64_t{500000000});
    EXPECT_GE(static_cast<double>(truth.measured_bytes), 0.9 * static_cast<double>(truth.predicted_bytes));
    std::printf("%s: predicted %lld, measured %lld\n", optimizer,
                static_cast<long long>(truth.predicted_bytes), static_cast<long long>(truth.measured_bytes));
  }
}

}  // namespace
}  // namespace plimsoll::testing
