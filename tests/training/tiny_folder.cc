#include "tests/training/tiny_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "plimsoll/trainer.h"

namespace plimsoll::testing {

namespace fs = std::filesystem;

TestFolder::TestFolder(const std::string& name)
    : root_(fs::temp_directory_path() / ("plimsoll_" + name + "_" + std::to_string(getpid()))) {
  fs::remove_all(root_);
  fs::create_directories(root_);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string write_tiny_model(const TestFolder& folder, double dropout) {
  fs::create_directories(folder.path("model"));
  std::ofstream file(folder.path("model") + "/config.json");
  file << "{\"model_type\": \"bert\", \"vocab_size\": 150, \"hidden_size\": 16, \"num_hidden_layers\": 2, "
          "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"max_position_embeddings\": 32, "
          "\"hidden_dropout_prob\": "
       << dropout << ", \"attention_probs_dropout_prob\": " << dropout << "}";
  return folder.path("model");
}

Arguments tiny_arguments(const std::string& model, const std::string& output_dir) {
  Arguments arguments;
  arguments.config_name = model;
  arguments.dataset_name = "dummy";
  arguments.dummy_num_samples = 22;
  arguments.dummy_seq_length = 12;
  arguments.output_dir = output_dir;
  arguments.per_device_train_batch_size = 3;
  arguments.gradient_accumulation_steps = 2;
  arguments.max_steps = 12;
  arguments.learning_rate = 1e-3;
  arguments.lr_scheduler_type = "cosine";
  arguments.warmup_steps = 3;
  arguments.logging_steps = 1;
  arguments.save_steps = 1;
  // Keeps the optimizer states in the last checkpoint, because some tests extend complete runs.
  arguments.save_only_model = false;
  arguments.num_threads = 2;
  // If PLIMSOLL_TEST_DEVICE is set (CMakeLists.txt), the same tests run on a GPU.
  if (const char* device = std::getenv("PLIMSOLL_TEST_DEVICE")) arguments.device = device;
  return arguments;
}

std::string write_uneven_rows(const TestFolder& folder, int num_rows) {
  std::ofstream vocabulary(folder.path("model") + "/vocab.txt");
  vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary << letter << "\n";
  std::ofstream file(folder.path("rows.csv"));
  file << "sentence,label\n";
  for (int row = 0; row < num_rows; ++row) {
    // A multiplication modulo a prime gives pseudo-random numbers that are the same on every machine.
    const int mark = row * 17 % 31;
    const int num_words = mark % 3 == 0 ? 15 + mark % 6 : 1 + mark % 4;
    for (int word = 0; word < num_words; ++word) {
      file << (word == 0 ? "" : " ") << static_cast<char>('a' + (mark + 5 * word) % 26);
    }
    file << (mark % 2 == 0 ? ",even\n" : ",odd\n");
  }
  return folder.path("rows.csv");
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string write_tiny_base(const TestFolder& folder) {
  Arguments arguments = tiny_arguments(write_tiny_model(folder), folder.path("base_run"));
  arguments.save_strategy = "no";
  Trainer(arguments).save_model(folder.path("base"));
  return folder.path("base");
}

std::string refusal(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace plimsoll::testing
