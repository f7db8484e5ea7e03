// Compares plans with measurements in two hundred small runs, and in large runs, whose predictions must not be
// too high either. The cases are independent: GTEST_TOTAL_SHARDS distributes them over processes. To run the
// two hundred on a GPU, as truth_gpu_test.cc does, set PLIMSOLL_TEST_DEVICE=cuda:0 and use one process at a
// time.
#include <fmt/ranges.h>
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

// The two hundred random runs are divided evenly among the cases of this test, which can run in parallel.
TEST_P(TruthLong, TwoHundredRunsHoldWhatWasPlanned) {
  const TestFolder folder("truth_long_" + std::to_string(GetParam()));
  for (uint64_t number = GetParam(); number < kRuns; number += kCases) {
    const RandomRun run = random_run(folder, 2, number, device_of_tests());
    SCOPED_TRACE(fmt::format("{}", fmt::join(run.words, " ")));
    const MemoryTruth truth = memory_of(folder, run.words);
    expect_truth(truth);
    const std::string figures =
        truth.is_on_gpu ? describe_held(truth)
                        : fmt::format("arena {}, high water {}, beside the arena predicted {}, measured {}",
                                      truth.arena_bytes, truth.high_water_bytes, truth.constant_bytes,
                                      truth.measured_bytes - truth.arena_bytes);
    std::printf("run %3llu: %s; %d draws, %s\n", static_cast<unsigned long long>(number), figures.c_str(),
                run.num_draws, run.summary.c_str());
    std::fflush(stdout);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TruthLong, ::testing::Range(uint64_t{0}, kCases));

// Tests runs of more than 500 MB in which all batches have the largest size.
TEST(TruthLarge, RunsUseNineTenthsOfWhatWasPredicted) {
  const TestFolder folder("truth_large");
  std::filesystem::create_directories(folder.path("model"));
  std::ofstream(folder.path("model") + "/config.json")
      << "{\"model_type\": \"bert\", \"vocab_size\": 30522, \"hidden_size\": 512, \"num_hidden_layers\": 4, "
         "\"num_attention_heads\": 8, \"intermediate_size\": 2048, \"max_position_embeddings\": 512}";
  for (const char* optimizer : {"adamw_torch", "sgd"}) {
    SCOPED_TRACE(optimizer);
    const MemoryTruth truth = memory_of(folder, {"train",
                                                 "--device",
                                                 "cpu",
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
