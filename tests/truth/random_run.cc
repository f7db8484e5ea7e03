#include "tests/truth/random_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "base/file.h"
#include "base/philox.h"
#include "device/cpu/cpu_features.h"
#include "plan/build/plan.h"
#include "plimsoll/arguments.h"
#include "tests/bad_input/binary.h"
#include "train/run_setup.h"

namespace plimsoll::testing {
namespace {

// Buffers begin at multiples of this; what lies between the last buffer's last byte and the arena's end is
// less.

// Draws in the order of the calls; the same on every machine.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t number) : seed_(seed), number_(number) {}
  int64_t between(int64_t low, int64_t high) {
    const uint32_t word =
        philox4x32_10({static_cast<uint32_t>(number_), next_++, 0, 0}, {static_cast<uint32_t>(seed_), 11})[0];
    return low + static_cast<int64_t>(word % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }

 private:
  uint64_t seed_;
  uint64_t number_;
  uint32_t next_ = 0;
};

std::string bert_config(Draw& draw, int64_t heads, int64_t hidden, int64_t layers, int64_t intermediate) {
  return "{\"model_type\": \"bert\", \"vocab_size\": " + std::to_string(draw.between(150, 3000)) +
         ", \"hidden_size\": " + std::to_string(hidden) +
         ", \"num_hidden_layers\": " + std::to_string(layers) +
         ", \"num_attention_heads\": " + std::to_string(heads) +
         ", \"intermediate_size\": " + std::to_string(intermediate) + ", \"max_position_embeddings\": 128}";
}

std::string distilbert_config(Draw& draw, int64_t heads, int64_t hidden, int64_t layers,
                              int64_t intermediate) {
  return "{\"model_type\": \"distilbert\", \"vocab_size\": " + std::to_string(draw.between(150, 3000)) +
         ", \"dim\": " + std::to_string(hidden) + ", \"n_layers\": " + std::to_string(layers) +
         ", \"n_heads\": " + std::to_string(heads) + ", \"hidden_dim\": " + std::to_string(intermediate) +
         ", \"max_position_embeddings\": 128}";
}

// A vocabulary and rows of 1 to `longest` words, so that batches fall into several buckets. Returns the data
// file.
std::string write_texts(const TestFolder& folder, Draw& draw, int64_t num_rows, int64_t longest,
                        int64_t num_labels) {
  std::ofstream vocabulary(folder.path("model") + "/vocab.txt");
  vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary << letter << "\n";
  const std::string path = folder.path("texts.tsv");
  std::ofstream rows(path);
  rows << "sentence\tlabel\n";
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t words = draw.between(1, longest);
    for (int64_t i = 0; i < words; ++i) rows << static_cast<char>('a' + draw.between(0, 25)) << ' ';
    rows << "\tlabel" << row % num_labels << "\n";
  }
  return path;
}

}  // namespace

std::vector<std::string> random_run(const TestFolder& folder, uint64_t seed, uint64_t number) {
  Draw draw(seed, number);
  const int64_t heads = draw.between(1, 4);
  const int64_t hidden = heads * 8 * draw.between(1, 6);
  const int64_t layers = draw.between(1, 4);
  const int64_t intermediate = 8 * draw.between(2, 50);
  std::filesystem::create_directories(folder.path("model"));
  std::ofstream(folder.path("model") + "/config.json")
      << (draw.coin() ? bert_config(draw, heads, hidden, layers, intermediate)
                      : distilbert_config(draw, heads, hidden, layers, intermediate));
  std::vector<std::string> words = {
      "train", "--config_name", folder.path("model"), "--output_dir", folder.path("out"), "--logging_steps",
      "1"};
  const auto add = [&](const std::string& name, int64_t value) {
    words.push_back("--" + name);
    words.push_back(std::to_string(value));
  };
  const int64_t num_rows = draw.between(20, 60);
  const int64_t length = draw.between(3, 100);
  const int64_t num_labels = draw.between(2, 5);
  if (draw.coin()) {
    words.insert(words.end(), {"--dataset_name", "dummy"});
    add("dummy_num_samples", num_rows);
    add("dummy_seq_length", length);
    add("num_labels", num_labels);
    add("max_steps", draw.between(1, 4));
  } else {
    // A whole epoch, so that the largest batch is among those that run.
    add("num_train_epochs", 1);
    const std::string data = write_texts(folder, draw, num_rows, length, num_labels);
    words.insert(words.end(),
                 {"--tokenizer_name", folder.path("model"), "--train_file", data, "--validation_file", data});
    if (draw.coin()) words.insert(words.end(), {"--train_sampling_strategy", "group_by_length"});
  }
  add("per_device_train_batch_size", draw.between(1, 9));
  add("per_device_eval_batch_size", draw.between(1, 12));
  add("gradient_accumulation_steps", draw.between(1, 3));
  add("num_threads", draw.between(1, 2));
  add("dataloader_num_workers", draw.between(0, 2));
  add("seed", draw.between(0, 1000));
  if (draw.coin()) words.insert(words.end(), {"--optim", "sgd"});
  if (words.back() == "sgd" && draw.coin()) words.insert(words.end(), {"--optim_args", "momentum=0.9"});
  if (draw.coin()) words.insert(words.end(), {"--eval_strategy", "steps", "--eval_steps", "20"});
  if (draw.coin()) words.insert(words.end(), {"--save_strategy", "no"});
  if (draw.coin()) words.insert(words.end(), {"--max_grad_norm", "0"});
  const bool wants_bf16 = draw.coin();
  if (draw.between(0, 3) == 0) {
    words.insert(words.end(), {"--kernels", "ref"});
  } else if (wants_bf16 && has_bf16_products(cpu_isa())) {
    words.push_back("--bf16");
  }
  const std::vector<std::vector<std::string>> recomputing{
      {"--gradient_checkpointing"}, {"--recompute", "selective"}, {"--recompute", "none"}, {}, {}};
  const std::vector<std::string>& more =
      recomputing[static_cast<size_t>(draw.between(0, std::ssize(recomputing) - 1))];
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

namespace {

// What the plan says, built here from the same words.
void add_plan(const std::vector<std::string>& words, MemoryTruth& truth) {
  const Arguments arguments = parse_arguments({words.begin() + 1, words.end()}).arguments;
  const Plan plan = build_plan(prepare_run(arguments, RunPurpose::kTrain, {}, posix_file_system()).request);
  truth.planned_arena_bytes = plan.arena_bytes;
  truth.is_on_gpu = plan.is_on_gpu();
  truth.tensors_end = plan.persistent_bytes;
  for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
    if (!*program) continue;
    for (const TransientBuffer& buffer : (*program)->buffers) {
      if (buffer.root == kNoValue) continue;
      truth.tensors_end = std::max(truth.tensors_end, buffer.offset + buffer.bytes);
    }
  }
}

}  // namespace

MemoryTruth memory_of(const TestFolder& folder, const std::vector<std::string>& words) {
  std::filesystem::remove_all(folder.path("out"));
  const ProcessResult result = run_plimsoll(words, folder.path("log"), 600000);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string text = read_file(folder.path("out") + "/memory.json");
  MemoryTruth truth{.arena_bytes = json_integer(text, "arena_bytes"),
                    .high_water_bytes = json_integer(text, "arena_high_water_bytes"),
                    .written_bytes = json_integer(text, "arena_written_bytes"),
                    .constant_bytes = json_integer(text, "constant_bytes"),
                    .predicted_bytes = json_integer(text, "predicted_total_bytes"),
                    .measured_bytes = json_integer(text, "measured_peak_bytes")};
  add_plan(words, truth);
  return truth;
}

void expect_truth(const MemoryTruth& truth) {
  ASSERT_TRUE(truth.ok()) << "memory.json is missing or incomplete";
  EXPECT_EQ(truth.predicted_bytes, truth.arena_bytes + truth.constant_bytes);
  EXPECT_EQ(truth.arena_bytes, truth.planned_arena_bytes);
  EXPECT_EQ(truth.high_water_bytes, truth.arena_bytes);
  EXPECT_GE(truth.written_bytes, truth.tensors_end);
  EXPECT_LE(truth.measured_bytes, truth.predicted_bytes);
  if (!truth.is_on_gpu) return;
  // What NVML counts comes within 1 % or 64 MiB of the prediction.
  const int64_t slack = std::max<int64_t>(truth.predicted_bytes / 100, int64_t{64} << 20);
  EXPECT_GE(truth.measured_bytes, truth.predicted_bytes - slack);
}

}  // namespace plimsoll::testing
