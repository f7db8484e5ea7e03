// Tests ranks that write a checkpoint together while the disk of one rank fails or is slow.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "plimsoll/free_port.h"
#include "tests/ranks/rank_processes.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> with_failing_calls(const std::string& folder, std::vector<std::string> variables) {
  variables.push_back("LD_PRELOAD=" + place("PLIMSOLL_FAILING_CALLS", PLIMSOLL_FAILING_CALLS));
  variables.push_back("PLIMSOLL_FAIL_UNDER=" + folder);
  return variables;
}

// Rank 1 writes and syncs its part of two files per checkpoint, with at least 7 and less than 200 calls: the model has 39 tensors, and each
// has two states. Call 200, the first one that fails, is therefore made after the first checkpoint and before the last of 30.
TEST(RankDisk, AnErrorOfOneRankIsThatOfAllAndNamesIt) {
  const TestFolder folder("rank_disk");
  const std::string model = write_tiny_model(folder);
  for (const bool async : {false, true}) {
    for (const int error_number : {ENOSPC, EIO}) {
      const std::string run = folder.path("run" + std::to_string(error_number) + (async ? "async" : ""));
      std::vector<std::string> more{"--optim", "adamw_torch", "--save_steps", "1"};
      if (async) more.push_back("--async_save");
      const std::vector<std::string> words = words_of(model, run, {.ranks = 2}, 30, more);
      const int port = free_port();
      std::vector<std::string> variables = with_failing_calls(run, variables_of(1, port));
      variables.insert(variables.end(), {"PLIMSOLL_FAIL_AT=200", "PLIMSOLL_FAIL_ON=always",
                                         "PLIMSOLL_FAIL_ERRNO=" + std::to_string(error_number)});
      Process first(words, folder.path("log0"), variables_of(0, port));
      Process second(words, folder.path("log1"), variables);
      for (Process* process : {&first, &second}) {
        const ProcessResult result = process->wait();
        EXPECT_EQ(result.exit_code, 7) << result.output;
        EXPECT_NE(result.output.find(" was not saved: rank 1: cannot "), std::string::npos) << result.output;
        EXPECT_NE(result.output.find(run + "/tmp-checkpoint-"), std::string::npos) << result.output;
        EXPECT_NE(
            result.output.find(error_number == ENOSPC ? "No space left on device" : "Input/output error"),
            std::string::npos)
            << result.output;
        EXPECT_NE(result.output.find(" is complete: resume with --resume_from_checkpoint True"),
                  std::string::npos)
            << result.output;
      }
      const NewestCheckpoint newest = find_newest_verified(posix_file_system(), run);
      EXPECT_GE(newest.step, 1);
      EXPECT_TRUE(newest.skipped.empty());
      for (const auto& entry : fs::directory_iterator(run))
        EXPECT_FALSE(entry.path().filename().string().starts_with("tmp-")) << entry.path();
      // Resumes the run with a working disk and waits until it has completed.
      std::vector<std::string> rest = words;
      rest.insert(rest.end(), {"--resume_from_checkpoint", "True"});
      const ProcessResult resumed = run_plimsoll(rest, folder.path("log"));
      EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    }
  }
}

// Returns the last step in the log of a run.
int64_t logged_step(const std::string& run) {
  std::istringstream lines(read_file(run + "/log.jsonl"));
  int64_t step = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_discarded() && record.contains("step")) step = record.at("step").get<int64_t>();
  }
  return step;
}

// The test slows down every sync of a file by 200 ms. A save syncs at least ten times, so it takes at least 2 s. A step of
// the tiny model takes some milliseconds, so at least five steps must be made during the save.
TEST(RankDisk, TrainingContinuesDuringASaveInTheBackground) {
  const TestFolder folder("rank_slow_disk");
  const std::string model = write_tiny_model(folder);
  for (const int ranks : {1, 2}) {
    const std::string run = folder.path("run" + std::to_string(ranks));
    Process process(words_of(model, run, {.ranks = ranks}, 100'000,
                             {"--optim", "adamw_torch", "--save_steps", "10", "--async_save"}),
                    folder.path("log"),
                    with_failing_calls(run, {"PLIMSOLL_FAIL_AT=1000000000", "PLIMSOLL_SYNC_US=200000"}));
    wait_for(process, run + "/checkpoint-10");
    EXPECT_GE(logged_step(run), 15) << process.output();
  }
}

}  // namespace
}  // namespace plimsoll::testing
