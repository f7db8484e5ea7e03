#include "tests/kill/kill_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "base/philox.h"
#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"
#include "tests/training/tiny_words.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 24;

uint64_t random_word(uint64_t seed, uint64_t index) {
  const auto words = philox4x32_10({static_cast<uint32_t>(index), 0, 0, 0}, {static_cast<uint32_t>(seed), 7});
  return words[0];
}

// Returns the step of the newest checkpoint folder in `run`, or 0 if there is none.
int64_t newest_step(const std::string& run) {
  constexpr std::string_view kPrefix = "checkpoint-";
  int64_t newest = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    const std::string name = entry.path().filename().string();
    int64_t step = 0;
    if (name.starts_with(kPrefix) &&
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step).ptr ==
            name.data() + name.size()) {
      newest = std::max(newest, step);
    }
  }
  return newest;
}

// Starts the run and kills it `delay_us` after the checkpoint of `step` appears. If that checkpoint already exists,
// the delay counts from the start of the process, so that kills also occur while a run resumes.
ProcessResult run_and_kill(const std::vector<std::string>& words, const std::string& run,
                           const std::string& log, int64_t step, int64_t delay_us) {
  Process process(words, log);
  while (process.is_running() && newest_step(run) < step) sleep_us(200);
  sleep_us(delay_us);
  process.send(SIGKILL);
  return process.wait();
}

// Expects that the run ended with the bits of the uninterrupted one and left no incomplete files.
void expect_same_end(const std::string& run, const std::string& whole) {
  const std::string last = "/checkpoint-" + std::to_string(kSteps);
  for (const std::string& file :
       {last + "/model.safetensors", last + "/optimizer.safetensors", std::string("/model.safetensors")}) {
    const std::string expected = read_file(whole + file);
    EXPECT_FALSE(expected.empty());
    EXPECT_TRUE(read_file(run + file) == expected) << file;
  }
  for (const auto& entry : fs::directory_iterator(run)) {
    EXPECT_EQ(entry.path().filename().string().find("plimsoll-tmp"), std::string::npos)
        << entry.path() << " is left over";
  }
}

}  // namespace

std::vector<std::string> killed_run(const std::string& model, const std::string& output_dir,
                                    int64_t max_steps) {
  std::vector<std::string> words = tiny_train_words(model, output_dir, max_steps);
  words.insert(words.end(), {"--gradient_accumulation_steps", "2", "--learning_rate", "1e-3",
                             "--lr_scheduler_type", "cosine", "--warmup_steps", "3", "--save_steps", "1",
                             "--save_total_limit", "3", "--resume_from_checkpoint", "True"});
  return words;
}

void expect_kills_change_nothing(const std::string& name, int kills, uint64_t seed) {
  const TestFolder folder(name);
  const std::string model = write_tiny_model(folder);
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult whole =
      run_plimsoll(killed_run(model, folder.path("whole"), kSteps), folder.path("log"));
  const auto whole_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;

  int killed = 0;
  int restarts = 0;
  const int64_t step_us = whole_us.count() / kSteps;
  // A run may end before it is killed. The time of each kill is proportional to the measured time of a step,
  // so that most runs are killed before they end, on fast and on slow machines.
  for (int round = 0; killed < kills; ++round) {
    ASSERT_LT(round, 2 * kills + 8) << "runs end before they are killed";
    const std::string run = folder.path("run" + std::to_string(round));
    const std::vector<std::string> words = killed_run(model, run, kSteps);
    // In each round a run is killed and resumed until it has completed.
    bool through = false;
    while (!through) {
      const int64_t newest = newest_step(run);
      const bool goes_on = newest > 0;
      const bool may_kill = killed < kills;
      const uint64_t draw = static_cast<uint64_t>(restarts) * 2;
      const int64_t step = std::max<int64_t>(newest, 1) +
                           static_cast<int64_t>(random_word(seed, draw) %
                                                static_cast<uint64_t>(std::max<int64_t>(kSteps - newest, 1)));
      // Chooses the delay of the next kill at random. If the kill waits for a new checkpoint, the delay is at most the
      // time of two steps, otherwise at most half the duration of a whole run, counted from the start of the process.
      const int64_t span = step > newest ? 2 * step_us : whole_us.count() / 2;
      const int64_t delay = static_cast<int64_t>(random_word(seed, draw + 1) %
                                                 static_cast<uint64_t>(std::max<int64_t>(span, 1)));
      ++restarts;
      ASSERT_LT(restarts, 20 * kills + 20) << "the run never ends";
      const ProcessResult result = may_kill ? run_and_kill(words, run, folder.path("log"), step, delay)
                                            : run_plimsoll(words, folder.path("log"));
      if (result.signal == SIGKILL) {
        ++killed;
      } else {
        ASSERT_EQ(result.exit_code, 0) << result.output;
        through = true;
      }
      // If a checkpoint exists, the run must not start from the beginning. A run that was killed early may have printed
      // nothing, so only a complete run must report from where it resumed.
      if (goes_on) {
        EXPECT_EQ(result.output.find("starting from the beginning"), std::string::npos) << result.output;
        if (through) {
          EXPECT_NE(result.output.find("resuming from "), std::string::npos) << result.output;
        }
      }
    }
    SCOPED_TRACE(run + " after " + std::to_string(killed) + " kills");
    expect_same_end(run, folder.path("whole"));
    fs::remove_all(run);
  }
  EXPECT_EQ(killed, kills);
}

}  // namespace plimsoll::testing
