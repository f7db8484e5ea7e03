// Tests checkpoints that several processes write together, and checkpoints that are written in the background.
// Both must have the same bytes as those that one process writes while training waits.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "plimsoll/free_port.h"
#include "plimsoll/trainer.h"
#include "tests/ranks/rank_processes.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

// Writes the configuration of a tiny GPT-2. Its checkpoints store matrices as their transposes, in which the
// slice of a rank is not contiguous.
std::string write_tiny_gpt2(const TestFolder& folder) {
  fs::create_directories(folder.path("gpt2"));
  std::ofstream(folder.path("gpt2/config.json"))
      << R"({"model_type": "gpt2", "vocab_size": 150, "n_positions": 32,
    "n_embd": 48, "n_layer": 2, "n_head": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2})";
  return folder.path("gpt2");
}

std::vector<std::string> saving_words(const std::string& model, const std::string& run, const Layout& layout,
                                      int steps, std::vector<std::string> more) {
  more.insert(more.end(), {"--optim", "adamw_torch", "--max_grad_norm", "0", "--save_steps", "2",
                           "--stage3_param_persistence_threshold", "100"});
  return words_of(model, run, layout, steps, more);
}

void expect_same_tensors(const std::string& a, const std::string& b) {
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors"}) {
    const std::string bytes = read_file(a + file);
    EXPECT_FALSE(bytes.empty()) << a;
    EXPECT_TRUE(read_file(b + file) == bytes) << file << " of " << a << " and " << b;
  }
  for (const std::string& folder : {a, b})
    EXPECT_EQ(find_damage(posix_file_system(), folder, VerifyDepth::kHashes), std::nullopt) << folder;
}

// Runs two ranks with the environment variables that torchrun would set. `run` and `other` are the output folders of rank 0 and rank 1.
// Returns the output of rank 0.
std::string run_two_ranks(const TestFolder& folder, const std::string& model, const std::string& run,
                          const std::string& other, const std::vector<std::string>& more) {
  const int port = free_port();
  const Layout two{.ranks = 2};
  Process first(saving_words(model, run, two, 4, more), folder.path("log0"), variables_of(0, port));
  Process second(saving_words(model, other, two, 4, more), folder.path("log1"), variables_of(1, port));
  const ProcessResult result = first.wait(), result1 = second.wait();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result1.exit_code, 0) << result1.output;
  return result.output;
}

// Two ranks with a shared output folder write the same bytes together as rank 0 alone without a shared folder.
TEST(RankCheckpoints, RanksWriteTheBytesThatOneRankWrites) {
  const TestFolder folder("rank_checkpoints");
  const std::string bert = write_tiny_model(folder), gpt2 = write_tiny_gpt2(folder);
  const std::string note = "do not share the folder";
  for (const std::string& model : {bert, gpt2}) {
    for (const std::string stage : {"0", "1", "3"}) {
      const std::string name = fs::path(model).filename().string() + stage;
      const std::string together = folder.path(name + "together"), alone = folder.path(name + "alone");
      const std::vector<std::string> settings{"--zero_stage", stage};
      const std::string output = run_two_ranks(folder, model, together, together, settings);
      EXPECT_EQ(output.find(note), std::string::npos) << output;
      const std::string lonely = run_two_ranks(folder, model, alone, folder.path(name + "other"), settings);
      EXPECT_NE(lonely.find(note), std::string::npos) << lonely;
      for (const char* checkpoint : {"/checkpoint-2", "/checkpoint-4"})
        expect_same_tensors(alone + checkpoint, together + checkpoint);
      EXPECT_NE(read_file(together + "/checkpoint-4/plimsoll_manifest.json").find("\"parts\""),
                std::string::npos);
      EXPECT_EQ(read_file(alone + "/checkpoint-4/plimsoll_manifest.json").find("\"parts\""),
                std::string::npos);
    }
  }
}

TEST(RankCheckpoints, SavesInTheBackgroundHaveTheSameBits) {
  const TestFolder folder("rank_async");
  const std::string bert = write_tiny_model(folder), gpt2 = write_tiny_gpt2(folder);
  struct Case {
    std::string model;
    int ranks;
    const char* stage;
  };
  for (const Case& c : {Case{bert, 1, "0"}, Case{bert, 2, "0"}, Case{bert, 2, "3"}, Case{gpt2, 2, "3"}}) {
    const std::string name = fs::path(c.model).filename().string() + std::to_string(c.ranks) + c.stage;
    const Layout layout{.ranks = c.ranks};
    const std::string whole = folder.path(name + "sync"), run = folder.path(name + "async");
    const ProcessResult sync =
        run_plimsoll(saving_words(c.model, whole, layout, 9, {"--zero_stage", c.stage}), folder.path("log"));
    ASSERT_EQ(sync.exit_code, 0) << sync.output;
    const ProcessResult async = run_plimsoll(
        saving_words(c.model, run, layout, 9, {"--zero_stage", c.stage, "--async_save"}), folder.path("log"));
    ASSERT_EQ(async.exit_code, 0) << async.output;
    EXPECT_EQ(async.output.find("--async_save:"), std::string::npos) << async.output;
    for (const char* checkpoint : {"/checkpoint-2", "/checkpoint-8", "/checkpoint-9"})
      expect_same_tensors(whole + checkpoint, run + checkpoint);
    EXPECT_TRUE(read_file(run + "/model.safetensors") == read_file(whole + "/model.safetensors"));
    EXPECT_EQ(fs::read_symlink(run + "/last"), "checkpoint-9");
  }
}

// Returns the largest of all integers that a JSON text contains as values of the key `name`; -1 if there are none.
int64_t largest_integer(const std::string& text, const std::string& name) {
  const std::string key = "\"" + name + "\": ";
  int64_t largest = -1;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1))
    largest = std::max<int64_t>(largest, std::stoll(text.substr(at + key.size())));
  return largest;
}

// The plan contains memory for a copy of all weights and of both moments of AdamW in fp32, from which the checkpoint is
// written in the background. If the memory limit has no room for the copy, the plan has none, and training waits for each
// save.
TEST(RankCheckpoints, ThePlanContainsTheCopyIfThereIsRoom) {
  if (on_gpus()) GTEST_SKIP() << "the memory limit is that of the GPU, and the copy is on the host";
  const TestFolder folder("rank_async_memory");
  const std::string model = write_tiny_model(folder), run = folder.path("run");
  const auto planned_bytes = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--json", folder.path("plan.json")});
    std::vector<std::string> words = saving_words(model, run, {}, 2, more);
    words[0] = "plan";
    const ProcessResult result = run_plimsoll(words, folder.path("log"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return largest_integer(read_file(folder.path("plan.json")), "total_bytes");
  };
  const int64_t without = planned_bytes({}), with = planned_bytes({"--async_save"});
  ASSERT_GT(without, 0);
  const std::string limit = std::to_string(with - 1);
  const int64_t limited = planned_bytes({"--async_save", "--memory_limit", limit});
  const ProcessResult result = run_plimsoll(
      saving_words(model, run, {}, 2, {"--async_save", "--memory_limit", limit}), folder.path("log"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("so training waits for each save"), std::string::npos) << result.output;
  EXPECT_EQ(find_newest_verified(posix_file_system(), run).step, 2);
  // The copy from which the background save reads has as many bytes as all tensors in the two files of a
  // checkpoint.
  int64_t bytes = 0;
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors"}) {
    const SafetensorsFile saved = SafetensorsFile::open(posix_file_system(), run + "/checkpoint-2" + file);
    for (const StoredTensor& tensor : saved.tensors()) bytes += tensor.end - tensor.begin;
  }
  EXPECT_EQ(limited, with - bytes);
  // Apart from the copy of the tensors, a background save needs memory for the texts of at most 30 log records of 1024 bytes each.
  const int64_t text_bytes = with - without - bytes;
  EXPECT_EQ(text_bytes % 1024, 0) << text_bytes;
  EXPECT_GT(text_bytes, 0);
  EXPECT_LE(text_bytes, 30 * 1024);
}

// On a GPU the copy is in pinned host memory. Each of two ranks copies half of the weights and moments of a BERT of one layer, which have
// 12 bytes per parameter. BertModel has 23,837,184 + 7,087,872 + 590,592 parameters (embeddings, layer, pooler) and the head 1,538, so that
// each copy has 6 x 31,517,186 bytes and 4096 for rounding: 180.3 MiB.
TEST(RankCheckpoints, PlansForGpusNameThePinnedCopy) {
  const TestFolder folder("rank_async_gpu");
  std::vector<std::string> words{"plan",
                                 "--device",
                                 "h100",
                                 "--nproc_per_node",
                                 "2",
                                 "--config_name",
                                 "bert-base-uncased",
                                 "--config_overrides",
                                 "num_hidden_layers=1",
                                 "--dataset_name",
                                 "dummy",
                                 "--max_steps",
                                 "2",
                                 "--zero_stage",
                                 "0",
                                 "--output_dir",
                                 folder.path("run"),
                                 "--async_save"};
  const ProcessResult result = run_plimsoll(words, folder.path("log"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("pinned host memory 180.3 MiB for the copy of a checkpoint"),
            std::string::npos)
      << result.output;
}

// After a request to stop, the run waits until the save in progress is complete, and then saves the last step.
TEST(RankCheckpoints, ARequestToStopWaitsForSavesInTheBackground) {
  const TestFolder folder("rank_async_stop");
  const std::string model = write_tiny_model(folder);
  for (const int ranks : {1, 2}) {
    const std::string run = folder.path("run" + std::to_string(ranks));
    Process process(
        saving_words(model, run, {.ranks = ranks}, 100'000, {"--async_save", "--save_total_limit", "2"}),
        folder.path("log"));
    wait_for_step(process, run, 4);
    process.send(SIGTERM);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 6) << result.output;
    const size_t at = result.output.find("interrupted at step ");
    ASSERT_NE(at, std::string::npos) << result.output;
    const NewestCheckpoint newest = find_newest_verified(posix_file_system(), run);
    EXPECT_EQ(newest.step, std::stoll(result.output.substr(at + 20))) << result.output;
    EXPECT_TRUE(newest.skipped.empty());
    for (const auto& entry : fs::directory_iterator(run))
      EXPECT_FALSE(entry.path().filename().string().starts_with("tmp-")) << entry.path();
  }
}

// Loads a checkpoint in a new run of this many ranks and saves it again, without a step. Returns the path of the new checkpoint.
std::string save_again(const TestFolder& folder, const std::string& model, const std::string& from,
                       const std::string& to, int num_ranks, int stage) {
  const int port = free_port();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const pid_t pid = fork();
    if (pid != 0) {
      processes.push_back(pid);
      continue;
    }
    int code = 1;
    try {
      for (const std::string& variable : variables_of(rank, port, num_ranks)) {
        const size_t equals = variable.find('=');
        if (num_ranks > 1) setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
      }
      Arguments arguments = tiny_arguments(model, folder.path(to));
      arguments.nproc_per_node = num_ranks;
      arguments.num_threads = 1;
      arguments.zero_stage = stage;
      arguments.stage3_param_persistence_threshold = 100;
      Trainer trainer(arguments);
      trainer.load_checkpoint(from);
      trainer.save_checkpoint();
      code = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    _exit(code);
  }
  for (const pid_t pid : processes) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << num_ranks << " ranks, stage " << stage;
  }
  return folder.path(to) + "/" + fs::path(from).filename().string();
}

// Loads a checkpoint and saves it again several times, each time with another number of ranks or another ZeRO
// stage: one rank, four ranks with stages 1 to 3, one rank again, and two ranks with stage 3, which wrote the
// first checkpoint. No tensor may change in any bit.
TEST(RankCheckpoints, MoveBetweenNumbersOfRanksAndStagesBitForBit) {
  const TestFolder folder("rank_moves");
  const std::string model = write_tiny_model(folder);
  const std::string begun = folder.path("begun");
  const ProcessResult result =
      run_plimsoll(saving_words(model, begun, {.ranks = 2, .accumulation = 2}, 4, {"--zero_stage", "3"}),
                   folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string first = begun + "/checkpoint-2";
  std::string last = first;
  int moves = 0;
  for (const auto& [ranks, stage] :
       std::vector<std::pair<int, int>>{{1, 0}, {4, 1}, {4, 2}, {4, 3}, {1, 0}, {2, 3}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, stage " + std::to_string(stage));
    last = save_again(folder, model, last, "move" + std::to_string(++moves), ranks, stage);
    expect_same_tensors(first, last);
  }
}

}  // namespace
}  // namespace plimsoll::testing
