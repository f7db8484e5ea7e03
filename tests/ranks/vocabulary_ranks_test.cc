// Tests runs of several processes that divide the vocabulary of a language model. They must train, evaluate and
// save like one process, and resume on any number of processes. The tests run on CPUs, or on two GPUs if
// PLIMSOLL_TEST_DEVICE is set (CMakeLists.txt).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/bad_input/binary.h"
#include "tests/ranks/rank_processes.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// Fails the test if the logged values differ by more than rounding. Ranks add the terms of a sum in another
// order, and the steps carry the rounding differences on through the weights.
void expect_near_values(const std::string& run, const std::string& wanted, const std::string& key) {
  constexpr double kRelative = 1e-5;
  const std::vector<double> found = logged_values(run, key), want = logged_values(wanted, key);
  ASSERT_EQ(found.size(), want.size()) << key;
  ASSERT_FALSE(want.empty()) << key;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(found[i], want[i], kRelative * std::abs(want[i])) << key << " of record " << i;
}

struct Shape {
  int tensor_ranks, processes;
};
std::vector<Shape> shapes() {
  if (on_gpus()) return {{2, 2}};
  return {{2, 2}, {4, 4}, {2, 4}};
}

// Returns the arguments of a run of a language model whose head is tied to the word embeddings. Their table has
// 421 rows, which cannot be divided evenly among ranks. A step has two micro-batches in total.
std::vector<std::string> vocabulary_words(const std::string& run, const Shape& shape, int steps,
                                          const std::vector<std::string>& more) {
  const std::string data = place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/src/io/data/fixtures/clm/";
  std::vector<std::string> words{"train",
                                 "--config_name",
                                 "gpt2",
                                 "--config_overrides",
                                 "n_layer=2,n_embd=16,n_head=4,vocab_size=421,n_positions=64",
                                 "--problem_type",
                                 "causal_lm",
                                 "--train_file",
                                 data + "lines.txt",
                                 "--tokenizer_name",
                                 data + "plain",
                                 "--block_size",
                                 "16",
                                 "--device",
                                 on_gpus() ? "auto" : "cpu",
                                 "--output_dir",
                                 run,
                                 "--nproc_per_node",
                                 std::to_string(shape.processes),
                                 "--tp_size",
                                 std::to_string(shape.tensor_ranks),
                                 "--gradient_accumulation_steps",
                                 std::to_string(2 * shape.tensor_ranks / shape.processes),
                                 "--max_steps",
                                 std::to_string(steps),
                                 "--logging_steps",
                                 "1",
                                 "--optim",
                                 "sgd",
                                 "--optim_args",
                                 "momentum=0.9",
                                 "--learning_rate",
                                 "0.05",
                                 "--lr_scheduler_type",
                                 "constant",
                                 "--per_device_train_batch_size",
                                 "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void run_vocabulary(const std::string& run, const Shape& shape, int steps,
                    const std::vector<std::string>& more, const TestFolder& folder) {
  const ProcessResult result = run_plimsoll(vocabulary_words(run, shape, steps, more), folder.path("log"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
}

TEST(VocabularyRanks, MakeTheStepsOfOneProcess) {
  const TestFolder folder("vocabulary");
  const std::string file =
      place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/src/io/data/fixtures/clm/lines.txt";
  struct Loss {
    std::string smoothing, chunks;
  };
  for (const Loss& loss : {Loss{"0", "never"}, Loss{"0.1", "never"}, Loss{"0.1", "always"}}) {
    const std::string name = loss.smoothing + loss.chunks;
    const std::vector<std::string> more{
        "--validation_file",        file,           "--eval_strategy", "steps",     "--eval_steps",    "2",
        "--label_smoothing_factor", loss.smoothing, "--chunked_loss",  loss.chunks, "--max_grad_norm", "0.5"};
    const std::string one = folder.path("one" + name);
    run_vocabulary(one, {1, 1}, 6, more, folder);
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(fmt::format("{} processes in groups of {}, smoothing {}, chunks {}", shape.processes,
                               shape.tensor_ranks, loss.smoothing, loss.chunks));
      const std::string run = folder.path(fmt::format("{}_{}_{}", shape.processes, shape.tensor_ranks, name));
      run_vocabulary(run, shape, 6, more, folder);
      for (const char* key : {"loss", "grad_norm", "eval_loss"}) expect_near_values(run, one, key);
      EXPECT_EQ(logged_values(run, "eval_accuracy"), logged_values(one, "eval_accuracy"));
    }
  }
}

// A checkpoint must contain the rows of all ranks without padding. With a learning rate of 0 it must have the
// same bytes as that of one process.
TEST(VocabularyRanks, SaveWholeTables) {
  const TestFolder folder("vocabulary_saved");
  const std::vector<std::string> more{"--learning_rate",   "0",    "--save_steps", "1",
                                      "--save_only_model", "False"};
  const std::string one = folder.path("one");
  run_vocabulary(one, {1, 1}, 1, more, folder);
  for (const Shape& shape : shapes()) {
    const std::string run = folder.path(fmt::format("{}_{}", shape.processes, shape.tensor_ranks));
    run_vocabulary(run, shape, 1, more, folder);
    EXPECT_TRUE(read_file(run + "/checkpoint-1/model.safetensors") ==
                read_file(one + "/checkpoint-1/model.safetensors"));
    EXPECT_EQ(read_file(run + "/checkpoint-1/optimizer.safetensors").size(),
              read_file(one + "/checkpoint-1/optimizer.safetensors").size());
  }
}

TEST(VocabularyRanks, ResumeOnAnyMesh) {
  const TestFolder folder("vocabulary_resume");
  const std::vector<std::string> more{
      "--save_steps", "1", "--save_only_model", "False", "--resume_from_checkpoint", "True"};
  const std::string one = folder.path("one"), several = folder.path("several");
  run_vocabulary(one, {1, 1}, 8, more, folder);
  int steps = 2;
  std::vector<Shape> parts{{1, 1}, {2, 2}, {2, 4}, {4, 4}};
  if (on_gpus()) parts = {{1, 1}, {2, 2}, {1, 1}, {2, 2}};
  for (const Shape& shape : parts) {
    run_vocabulary(several, shape, steps, more, folder);
    steps += 2;
  }
  for (const char* key : {"loss", "grad_norm"}) expect_near_values(several, one, key);
}

}  // namespace
}  // namespace plimsoll::testing
