#include "tests/bad_input/ground.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/bad_input/binary.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig =
    "{\"model_type\": \"bert\", \"vocab_size\": 112, \"hidden_size\": 16, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"max_position_embeddings\": 32}\n";

std::string vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    text += std::string(1, letter) + "\n##" + std::string(1, letter) + "\n";
  }
  for (int i = 0; i < 50; ++i) text += "word" + std::to_string(i) + "\n";
  return text;
}

std::string good_rows() {
  std::string text = "sentence\tlabel\n";
  for (int i = 0; i < 8; ++i) {
    text += "word" + std::to_string(i) + " is a word" + std::to_string(9 * i % 50) + "\t" +
            (i % 2 == 0 ? "good" : "bad") + "\n";
  }
  return text;
}

}  // namespace

Case words(std::string name, int exit_code, Words message, Words command) {
  return {std::move(name), exit_code, std::move(message),
          [command = std::move(command)](const Ground&) { return command; }};
}

Case argument(std::string name, int exit_code, Words message, Words more) {
  return {std::move(name), exit_code, std::move(message),
          [more = std::move(more)](const Ground& ground) { return ground.train_dummy(more); }};
}

Words undried(Words command) {
  std::erase(command, "--dry_run");
  return command;
}

std::vector<Case> joined(const std::vector<std::vector<Case>>& tables) {
  std::vector<Case> all;
  for (const std::vector<Case>& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

void replace_first(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("'" + std::string(from) + "' is not in the text");
  text.replace(at, from.size(), to);
}

Ground::Ground() : folder_("bad_input") {
  fs::create_directories(path("scratch"));
  file("scratch/config.json", kConfig);
  file("scratch/vocab.txt", vocabulary());
  file("scratch/tokenizer_config.json",
       "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true}\n");
  file("train.tsv", good_rows());
  const ProcessResult result =
      run_plimsoll({"train", "--config_name", path("scratch"), "--tokenizer_name", path("scratch"),
                    "--train_file", data(), "--output_dir", run(), "--max_steps", "2", "--save_steps", "1",
                    "--save_only_model", "False", "--num_threads", "1"},
                   path("log"));
  if (result.exit_code != 0) {
    complaint_ = "the good run ended with " + std::to_string(result.exit_code) + ":\n" + result.output;
    return;
  }
  fs::create_directories(model());
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}) {
    fs::copy_file(run() + "/" + name, model() + "/" + name);
  }
  const ProcessResult adapted =
      run_plimsoll(train_adapter(adapter(), {"--lora_r", "2", "--max_steps", "2"}), path("log"));
  if (adapted.exit_code == 0) return;
  complaint_ =
      "the good adapter's run ended with " + std::to_string(adapted.exit_code) + ":\n" + adapted.output;
}

std::string Ground::file(const std::string& name, std::string_view text) const {
  std::ofstream out(path(name), std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error(path(name) + " cannot be written");
  return path(name);
}

std::string Ground::model_with(const std::string& name, std::string_view text) const {
  const std::string copy = "copy" + std::to_string(++copies_);
  fs::copy(model(), path(copy));
  if (!name.empty()) file(copy + "/" + name, text);
  return path(copy);
}

std::string Ground::model_replacing(const std::string& name, std::string_view from,
                                    std::string_view to) const {
  std::string text = read_file(model() + "/" + name);
  replace_first(text, from, to);
  return model_with(name, text);
}

std::string Ground::model_without(const std::string& name) const {
  std::string copy = model_with("", "");
  if (!fs::remove(copy + "/" + name)) throw std::runtime_error(name + " is not in the model");
  return copy;
}

std::string Ground::model_with_header(const std::function<void(std::string&)>& change) const {
  const std::string text = read_file(model() + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  std::string header = text.substr(sizeof length, length);
  const std::string data = text.substr(sizeof length + length);
  change(header);
  length = header.size();
  std::string changed(sizeof length, '\0');
  std::memcpy(changed.data(), &length, sizeof length);
  return model_with("model.safetensors", changed + header + data);
}

std::string Ground::run_copy() const {
  std::string copy = path("run_copy" + std::to_string(++copies_));
  fs::copy(run(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  return copy;
}

std::string Ground::adapter_copy() const {
  std::string copy = path("adapter_copy" + std::to_string(++copies_));
  fs::copy(adapter(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  return copy;
}

Words Ground::predict(const std::string& model) const {
  return {"predict",         "--model_name_or_path", model, "--test_file", data(), "--output_dir",
          path("predicted"), "--num_threads",        "1"};
}

Words Ground::evaluate(const std::string& model, const std::string& validation_file,
                       const Words& more) const {
  Words words = {"eval",          "--model_name_or_path", model,      "--validation_file",
                 validation_file, "--output_dir",         path("out")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words Ground::plan(const std::string& config) const {
  return {"plan", "--config_name", config};
}

Words Ground::tokenize(const std::string& tokenizer) const {
  return {"tokenize", "--tokenizer_name", tokenizer, data()};
}

Words Ground::train(const std::string& train_file, const Words& more) const {
  Words words = {"train",     "--model_name_or_path", model(), "--train_file", train_file, "--output_dir",
                 path("out"), "--num_threads",        "1",     "--dry_run"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words Ground::train_adapter(const std::string& run, const Words& more) const {
  Words words = {"train", "--model_name_or_path", model(), "--train_file",  data(), "--output_dir",
                 run,     "--save_steps",         "1",     "--num_threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words Ground::train_dummy(const Words& more) const {
  Words words = {"train",
                 "--config_name",
                 path("scratch"),
                 "--dataset_name",
                 "dummy",
                 "--output_dir",
                 path("out"),
                 "--num_threads",
                 "1",
                 "--dry_run",
                 "--dummy_seq_length",
                 "8",
                 "--max_steps",
                 "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words Ground::resume(const std::string& run, const Words& more) const {
  Words words = {"train",
                 "--config_name",
                 path("scratch"),
                 "--tokenizer_name",
                 path("scratch"),
                 "--train_file",
                 data(),
                 "--output_dir",
                 run,
                 "--max_steps",
                 "3",
                 "--save_steps",
                 "1",
                 "--num_threads",
                 "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace plimsoll::testing
