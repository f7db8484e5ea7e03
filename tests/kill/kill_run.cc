#include "tests/kill/kill_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/philox.h"
#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 24;

uint64_t random_word(uint64_t seed, uint64_t index) {
  const auto words = philox4x32_10({static_cast<uint32_t>(index), 0, 0, 0}, {static_cast<uint32_t>(seed), 7});
  return words[0];
}

bool has_checkpoint(const std::string& run) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    if (entry.path().filename().string().starts_with("checkpoint-")) return true;
  }
  return false;
}

// Starts the run and kills it after `delay_us` from its first checkpoint or, on a restart, from its start.
// Returns what it said; `ended` tells that it was through before the kill.
ProcessResult run_and_kill(const std::vector<std::string>& words, const std::string& run,
                           const std::string& log, int64_t delay_us) {
  Process process(words, log);
  while (process.is_running() && !has_checkpoint(run)) sleep_us(500);
  sleep_us(delay_us);
  process.send(SIGKILL);
  return process.wait();
}

}  // namespace

std::vector<std::string> killed_run(const std::string& model, const std::string& output_dir,
                                    int64_t max_steps) {
  return {"train",
          "--config_name",
          model,
          "--dataset_name",
          "dummy",
          "--dummy_num_samples",
          "22",
          "--dummy_seq_length",
          "12",
          "--per_device_train_batch_size",
          "3",
          "--gradient_accumulation_steps",
          "2",
          "--learning_rate",
          "1e-3",
          "--lr_scheduler_type",
          "cosine",
          "--warmup_steps",
          "3",
          "--logging_steps",
          "1",
          "--save_steps",
          "1",
          "--save_total_limit",
          "3",
          "--num_threads",
          "1",
          "--max_steps",
          std::to_string(max_steps),
          "--output_dir",
          output_dir,
          "--resume_from_checkpoint",
          "True"};
}

void expect_kills_change_nothing(const std::string& name, int kills, uint64_t seed) {
  const TestFolder folder(name);
  const std::string model = write_tiny_model(folder);
  const std::string last = "/checkpoint-" + std::to_string(kSteps);
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult whole =
      run_plimsoll(killed_run(model, folder.path("whole"), kSteps), folder.path("log"));
  const auto whole_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;

  int killed = 0;
  int restarts = 0;
  for (int round = 0; killed < kills; ++round) {
    ASSERT_LT(round, kills) << "runs end before they are killed";
    const std::string run = folder.path("run" + std::to_string(round));
    const std::vector<std::string> words = killed_run(model, run, kSteps);
    // A chain of kills until the run is through.
    bool through = false;
    while (!through) {
      const bool goes_on = has_checkpoint(run);
      const bool may_kill = killed < kills;
      const int64_t delay = static_cast<int64_t>(random_word(seed, static_cast<uint64_t>(restarts)) %
                                                 static_cast<uint64_t>(whole_us.count()));
      ++restarts;
      ASSERT_LT(restarts, 20 * kills + 20) << "the run never ends";
      const ProcessResult result = may_kill ? run_and_kill(words, run, folder.path("log"), delay)
                                            : run_plimsoll(words, folder.path("log"));
      if (result.signal == SIGKILL) {
        ++killed;
      } else {
        ASSERT_EQ(result.exit_code, 0) << result.output;
        through = true;
      }
      // A run killed before it came so far says nothing; it never starts anew once there is a checkpoint.
      if (goes_on) {
        EXPECT_EQ(result.output.find("starting from the beginning"), std::string::npos) << result.output;
        if (through) {
          EXPECT_NE(result.output.find("resuming from "), std::string::npos) << result.output;
        }
      }
    }
    for (const char* file : {"/model.safetensors", "/optimizer.safetensors"}) {
      const std::string expected = read_file(folder.path("whole") + last + file);
      ASSERT_FALSE(expected.empty());
      EXPECT_TRUE(read_file(run + last + file) == expected)
          << run << last << file << " after " << killed << " kills";
    }
    EXPECT_TRUE(read_file(run + "/model.safetensors") ==
                read_file(folder.path("whole") + "/model.safetensors"));
    int left = 0;
    for (const auto& entry : fs::directory_iterator(run)) {
      left += entry.path().filename().string().find("plimsoll-tmp") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(left, 0) << "half-written files are left over";
    fs::remove_all(run);
  }
  EXPECT_EQ(killed, kills);
}

}  // namespace plimsoll::testing
