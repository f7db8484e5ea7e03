// Tests that memory which grows with the data or the length of a run is in the plan: the names of many labels,
// a large file while it is read, the log of many steps, the predictions for many rows, and a run with an
// enormous number of epochs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// Writes a tiny model with a vocabulary of letters. Returns its folder.
std::string write_model(const TestFolder& folder) {
  std::string model = write_tiny_model(folder);
  std::ofstream vocabulary(model + "/vocab.txt");
  vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary << letter << "\n";
  return model;
}

// Writes rows of 80 bytes.
std::string write_rows(const TestFolder& folder, int64_t num_rows) {
  std::string path = folder.path("rows.tsv");
  std::ofstream file(path);
  file << "sentence\tlabel\n";
  uint32_t state = 1;
  std::string row(80, ' ');
  row.replace(76, 4, "\tx0\n");
  for (int64_t i = 0; i < num_rows; ++i) {
    for (size_t at = 0; at < 76; at += 2) {
      state = state * 1664525u + 1013904223u;
      row[at] = static_cast<char>('a' + (state >> 24) % 26);
    }
    row[78] = static_cast<char>('0' + i % 2);
    file << row;
  }
  return path;
}

std::vector<std::string> train_arguments(const TestFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> words = {"train",
                                    "--config_name",
                                    folder.path("model"),
                                    "--output_dir",
                                    folder.path("out"),
                                    "--num_threads",
                                    "2",
                                    "--save_strategy",
                                    "no"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_held_within_plan(const TestFolder& folder, const char* what) {
  const std::string text = read_file(folder.path("out") + "/memory.json");
  const int64_t predicted = json_integer(text, "predicted_total_bytes");
  const int64_t measured = json_integer(text, "measured_peak_bytes");
  EXPECT_GT(measured, 0);
  EXPECT_LE(measured, predicted);
  std::printf("%s: predicted %.1f MiB, measured %.1f MiB\n", what, static_cast<double>(predicted) / 1048576.0,
              static_cast<double>(measured) / 1048576.0);
}

TEST(Memory, ManyLabelsAreInThePlan) {
  const TestFolder folder("many_labels");
  write_model(folder);
  ASSERT_EQ(run_plimsoll(train_arguments(folder, {"--dataset_name", "dummy", "--num_labels", "100000",
                                                  "--dummy_num_samples", "16", "--dummy_seq_length", "8",
                                                  "--per_device_train_batch_size", "2", "--max_steps", "2",
                                                  "--save_strategy", "epoch"}),
                         folder.path("log"), 60000)
                .exit_code,
            0)
      << read_file(folder.path("log"));
  expect_held_within_plan(folder, "100000 labels");
}

TEST(Memory, ALargeFileIsInThePlan) {
  const TestFolder folder("large_file");
  const std::string model = write_model(folder);
  const std::string rows = write_rows(folder, 1000000);
  std::vector<std::string> words = train_arguments(folder, {"--tokenizer_name", model, "--train_file", rows,
                                                            "--max_steps", "2", "--max_seq_length", "12"});
  const ProcessResult result = run_plimsoll(words, folder.path("log"), 300000);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_held_within_plan(folder, "80 MB of TSV");

  words.insert(words.end(), {"--memory_limit", "100MiB"});
  EXPECT_EQ(run_plimsoll(words, folder.path("log"), 300000).exit_code, 3);
  words.back() = "64MiB";
  const ProcessResult refused = run_plimsoll(words, folder.path("log"));
  EXPECT_EQ(refused.exit_code, 3);
  const std::string has = "rows.tsv: the file is read into memory and has " +
                          std::to_string(std::filesystem::file_size(rows)) + " bytes";
  EXPECT_NE(refused.output.find(has), std::string::npos) << refused.output;
  EXPECT_NE(refused.output.find("--memory_limit is 67108864 bytes"), std::string::npos) << refused.output;
  EXPECT_LT(refused.peak_bytes, 64 << 20) << "it was read all the same";
}

TEST(Memory, TheLogOfManyStepsIsInThePlan) {
  const TestFolder folder("many_steps");
  write_tiny_model(folder);
  const ProcessResult result = run_plimsoll(train_arguments(folder, {"--dataset_name",
                                                                     "dummy",
                                                                     "--dummy_num_samples",
                                                                     "4",
                                                                     "--dummy_seq_length",
                                                                     "2",
                                                                     "--per_device_train_batch_size",
                                                                     "1",
                                                                     "--logging_steps",
                                                                     "1",
                                                                     "--max_steps",
                                                                     "40000",
                                                                     "--config_overrides",
                                                                     "num_hidden_layers=1",
                                                                     "--save_strategy",
                                                                     "steps",
                                                                     "--save_steps",
                                                                     "20000",
                                                                     "--num_threads",
                                                                     "1"}),
                                            folder.path("log"), 300000);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_held_within_plan(folder, "40,000 steps logged");
  const std::string log = read_file(folder.path("out") + "/checkpoint-40000/log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 40000);
}

TEST(Memory, PredictionsAreWrittenAsTheyCome) {
  const TestFolder folder("many_predictions");
  const std::string model = write_model(folder);
  const std::string rows = write_rows(folder, 200000);
  ASSERT_EQ(run_plimsoll(train_arguments(folder, {"--tokenizer_name", model, "--train_file", rows,
                                                  "--max_steps", "1", "--max_train_samples", "16"}),
                         folder.path("log"), 300000)
                .exit_code,
            0);
  const ProcessResult result =
      run_plimsoll({"predict", "--model_name_or_path", folder.path("out"), "--test_file", rows,
                    "--max_seq_length", "4", "--per_device_eval_batch_size", "256", "--output_dir",
                    folder.path("predicted"), "--json", folder.path("plan.json"), "--num_threads", "2"},
                   folder.path("log"), 300000);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const int64_t predicted = json_integer(read_file(folder.path("plan.json")), "total_bytes");
  EXPECT_GT(result.peak_bytes, 0);
  EXPECT_LE(result.peak_bytes, predicted);
  std::printf("200,000 predictions: predicted %.1f MiB, measured %.1f MiB\n",
              static_cast<double>(predicted) / 1048576.0, static_cast<double>(result.peak_bytes) / 1048576.0);
  const std::string text = read_file(folder.path("predicted") + "/predict_results.txt");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 200001);
  EXPECT_NE(text.find("\n199999\tx"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path("predicted") + "/predict_results.txt.tmp"));
}

TEST(Memory, EpochsWithoutNumberArePlannedInTime) {
  const TestFolder folder("many_epochs");
  write_tiny_model(folder);
  for (const char* strategy : {"random", "sequential", "group_by_length"}) {
    const ProcessResult result = run_plimsoll(
        train_arguments(folder, {"--dataset_name", "dummy", "--max_steps", "1000000000", "--dry_run",
                                 "--dummy_seq_length", "16", "--train_sampling_strategy", strategy}),
        folder.path("log"), 20000);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_FALSE(result.timed_out) << strategy;
    EXPECT_LT(result.peak_bytes, 200 << 20);
  }
}

}  // namespace
}  // namespace plimsoll::testing
