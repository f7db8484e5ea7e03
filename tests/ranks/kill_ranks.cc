#include "tests/ranks/kill_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "tests/ranks/rank_processes.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 40;

// Arguments in which the runs differ: number of ranks, ZeRO stage, and whether they save in the background.
struct KilledRun {
  int ranks;
  const char* zero_stage;
  bool async;
};
constexpr KilledRun kRuns[] = {
    {3, "0", true}, {2, "3", true}, {1, "0", true}, {2, "1", false}, {3, "0", false}};

std::vector<std::string> killed_words(const std::string& model, const std::string& run,
                                      const KilledRun& settings, std::vector<std::string> more) {
  more.insert(more.end(),
              {"--optim", "adamw_torch", "--save_steps", "1", "--save_total_limit", "3", "--zero_stage",
               settings.zero_stage, "--stage3_param_persistence_threshold", "100"});
  return words_of(model, run, {.ranks = settings.ranks}, kSteps, more);
}

int64_t newest_step(const std::string& run) {
  int64_t newest = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run, ignored))
    newest = std::max(newest, checkpoint_step(entry.path().string()).value_or(0));
  return newest;
}

// Kills random ranks of a running process until the process ends or `kills` ranks were killed. Each kill waits until the run has
// saved a new checkpoint after the last kill, so that the run makes progress. Returns the number of kills.
int kill_ranks(Process& process, const std::string& run, int kills, std::minstd_rand& random) {
  int killed = 0;
  while (killed < kills && process.is_running()) {
    wait_for_step(process, run, newest_step(run) + 1 + static_cast<int64_t>(random() % 4));
    const bool during_save = random() % 2 == 0;
    if (during_save) wait_for_save(process, run);
    sleep_us(static_cast<int64_t>(random() % (during_save ? 20'000 : 60'000)));
    const std::vector<pid_t> ranks = ranks_of(process);
    if (!ranks.empty() && kill(ranks[random() % ranks.size()], SIGKILL) == 0) ++killed;
  }
  return killed;
}

void expect_same_end(const std::string& run, const std::string& whole, const std::string& output) {
  const NewestCheckpoint newest = find_newest_verified(posix_file_system(), run);
  EXPECT_EQ(newest.step, kSteps) << output;
  for (const ListedCheckpoint& listed : list_checkpoints(posix_file_system(), run))
    EXPECT_EQ(find_damage(posix_file_system(), listed.path, VerifyDepth::kHashes), std::nullopt)
        << listed.path;
  const std::string last = "/checkpoint-" + std::to_string(kSteps);
  for (const std::string& file :
       {last + "/model.safetensors", last + "/optimizer.safetensors", std::string("/model.safetensors")}) {
    const std::string expected = read_file(whole + file);
    EXPECT_FALSE(expected.empty());
    EXPECT_TRUE(read_file(run + file) == expected) << file << "\n" << output;
  }
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    EXPECT_FALSE(name.starts_with("tmp-") || name.starts_with(kTemporaryPrefix)) << name << " is left over";
  }
}

}  // namespace

void expect_rank_kills_change_nothing(const std::string& name, int kills, uint64_t seed) {
  const TestFolder folder(name);
  const std::string model = write_tiny_model(folder);
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
  int killed = 0;
  for (int round = 0; killed < kills; ++round) {
    ASSERT_LT(round, 2 * kills + 8) << "runs end before they are killed";
    const KilledRun& settings = kRuns[static_cast<size_t>(round) % std::size(kRuns)];
    SCOPED_TRACE(std::to_string(settings.ranks) + " ranks, stage " + settings.zero_stage + ", round " +
                 std::to_string(round));
    // The reference run is not disturbed. It waits for each save instead of saving in the background.
    const std::string whole = folder.path("whole" + std::to_string(round % std::ssize(kRuns)));
    if (!fs::exists(whole)) {
      const ProcessResult result =
          run_plimsoll(killed_words(model, whole, settings, {}), folder.path("log"), 120'000);
      ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    const std::string run = folder.path("run" + std::to_string(round));
    std::vector<std::string> more{"--max_restarts", "100"};
    if (settings.async) more.push_back("--async_save");
    Process process(killed_words(model, run, settings, more), folder.path("log"));
    const int killed_here = kill_ranks(process, run, std::min(kills - killed, 6), random);
    const ProcessResult result = process.wait(240'000);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    // If the other ranks are already failing because of an earlier kill, another kill causes no further
    // restart. There may therefore be fewer restarts than kills.
    const int restarts = count_of(result.output, " of 100 after the failure of rank ");
    EXPECT_LE(restarts, killed_here) << result.output;
    EXPECT_EQ(count_of(result.output, "skipped"), 0) << result.output;
    expect_same_end(run, whole, result.output);
    killed += restarts;
    fs::remove_all(run);
  }
}

}  // namespace plimsoll::testing
