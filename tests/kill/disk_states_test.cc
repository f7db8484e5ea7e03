// Tests runs that keep optimizer states in a file on a disk. They must have the same bits as runs that keep
// them in memory, and a run of either kind must be able to resume from the other. Also tests what happens to
// the file if a run ends, is interrupted or is killed.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bad_input/binary.h"
#include "tests/kill/kill_run.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewSteps = 40;
constexpr int64_t kEndless = 100000;

// Returns the arguments of a training run on a CPU. `nvme` is the folder for the optimizer states, or "" to
// keep them in memory.
std::vector<std::string> run_words(const std::string& model, const std::string& output_dir,
                                   const std::string& nvme, int64_t max_steps = kFewSteps) {
  std::vector<std::string> words = killed_run(model, output_dir, max_steps);
  words.emplace_back("--use_cpu");
  if (!nvme.empty()) words.insert(words.end(), {"--offload_optimizer", "nvme:" + nvme});
  return words;
}

std::string file_of_rank(const std::string& nvme, int rank = 0) {
  return nvme + "/plimsoll-optimizer-states-rank" + std::to_string(rank);
}

bool wait_for(Process& process, const std::string& path) {
  for (int i = 0; i < 60000 && process.is_running() && !fs::exists(path); ++i) sleep_us(1000);
  return fs::exists(path);
}

void expect_same_files(const std::string& run, const std::string& whole) {
  const std::string last = "/checkpoint-" + std::to_string(kFewSteps);
  for (const std::string& file : {last + "/model.safetensors", last + "/optimizer.safetensors"}) {
    const std::string expected = read_file(whole + file);
    EXPECT_FALSE(expected.empty());
    EXPECT_TRUE(read_file(run + file) == expected) << run << file;
  }
}

class DiskStates : public ::testing::Test {
 protected:
  DiskStates() : folder_("disk_states"), model_(write_tiny_model(folder_)), nvme_(folder_.path("nvme")) {
    fs::create_directories(nvme_);
  }
  ProcessResult run(const std::vector<std::string>& words) {
    return run_plimsoll(words, folder_.path("log"));
  }
  // Trains all steps with optimizer states in memory and returns the output folder. Runs that keep the states
  // on the disk must have the same result.
  std::string whole_run() {
    const ProcessResult result = run(run_words(model_, folder_.path("whole"), ""));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return folder_.path("whole");
  }

  TestFolder folder_;
  std::string model_;
  std::string nvme_;
};

TEST_F(DiskStates, ARunEndsWithTheSameBitsAndWithoutTheFile) {
  const std::string whole = whole_run();
  const ProcessResult result = run(run_words(model_, folder_.path("run"), nvme_));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_same_files(folder_.path("run"), whole);
  EXPECT_TRUE(fs::is_empty(nvme_));
}

// A save in the background copies the states from the file before the next step changes them there.
TEST_F(DiskStates, SavesInTheBackgroundContainTheStates) {
  const std::string whole = whole_run();
  std::vector<std::string> words = run_words(model_, folder_.path("run"), nvme_);
  words.emplace_back("--async_save");
  const ProcessResult result = run(words);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_same_files(folder_.path("run"), whole);
  EXPECT_TRUE(fs::is_empty(nvme_));
}

// A killed run leaves its file of optimizer states, and the next run that stores its states in the same folder must replace this file.
// Checkpoints contain the states, so a run with states on the disk can be resumed with states in memory, and the reverse.
TEST_F(DiskStates, AKilledRunResumesWithAndWithoutTheDisk) {
  const std::string whole = whole_run();
  struct Way {
    bool before = false, after = false;
  };
  for (const Way& way : {Way{true, true}, Way{true, false}, Way{false, true}}) {
    SCOPED_TRACE(std::to_string(way.before) + " then " + std::to_string(way.after));
    const std::string output = folder_.path("run" + std::to_string(way.before) + std::to_string(way.after));
    {
      Process process(run_words(model_, output, way.before ? nvme_ : ""), folder_.path("log"));
      ASSERT_TRUE(wait_for(process, output + "/checkpoint-3")) << process.output();
      process.send(SIGKILL);
      ASSERT_EQ(process.wait().signal, SIGKILL) << "the run ended before it was killed";
    }
    EXPECT_EQ(fs::exists(file_of_rank(nvme_)), way.before);
    const ProcessResult rest = run(run_words(model_, output, way.after ? nvme_ : ""));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_NE(rest.output.find("/checkpoint-"), std::string::npos) << rest.output;
    expect_same_files(output, whole);
    EXPECT_EQ(fs::is_empty(nvme_), way.after || !way.before);
    fs::remove(file_of_rank(nvme_));
  }
}

TEST_F(DiskStates, AnInterruptedRunRemovesItsFile) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string output = folder_.path("run" + std::to_string(signal));
    Process process(run_words(model_, output, nvme_, kEndless), folder_.path("log"));
    ASSERT_TRUE(wait_for(process, output + "/checkpoint-2")) << process.output();
    EXPECT_TRUE(fs::exists(file_of_rank(nvme_)));
    process.send(signal);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 6) << result.output;
    EXPECT_TRUE(fs::is_empty(nvme_));
  }
}

TEST_F(DiskStates, TwoRunsDoNotShareAFile) {
  Process first(run_words(model_, folder_.path("first"), nvme_, kEndless), folder_.path("log"));
  ASSERT_TRUE(wait_for(first, folder_.path("first") + "/checkpoint-2")) << first.output();
  const ProcessResult second =
      run_plimsoll(run_words(model_, folder_.path("second"), nvme_), folder_.path("second_log"));
  EXPECT_EQ(second.exit_code, 7) << second.output;
  EXPECT_NE(second.output.find("another run has the file open"), std::string::npos) << second.output;
  EXPECT_TRUE(first.is_running());
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 6);
}

TEST_F(DiskStates, EachRankHasItsFile) {
  const auto words = [&](const std::string& name, const std::string& nvme, int64_t steps) {
    std::vector<std::string> list = run_words(model_, folder_.path(name), nvme, steps);
    list.insert(list.end(), {"--nproc_per_node", "2"});
    return list;
  };
  const ProcessResult without = run(words("without", "", kFewSteps));
  ASSERT_EQ(without.exit_code, 0) << without.output;
  const ProcessResult with = run(words("with", nvme_, kFewSteps));
  ASSERT_EQ(with.exit_code, 0) << with.output;
  expect_same_files(folder_.path("with"), folder_.path("without"));
  EXPECT_TRUE(fs::is_empty(nvme_));
  Process process(words("endless", nvme_, kEndless), folder_.path("log"));
  ASSERT_TRUE(wait_for(process, folder_.path("endless") + "/checkpoint-2")) << process.output();
  EXPECT_TRUE(fs::exists(file_of_rank(nvme_, 0)) && fs::exists(file_of_rank(nvme_, 1)));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 6);
  EXPECT_TRUE(fs::is_empty(nvme_));
}

}  // namespace
}  // namespace plimsoll::testing
