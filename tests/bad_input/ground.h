// Good files for the tests of bad input, and ways to spoil them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {

using Words = std::vector<std::string>;

// A folder with a fine-tuned model (config.json, model.safetensors, vocab.txt, tokenizer_config.json), a run
// with a checkpoint, a run that trained an adapter, and data. Made once, by training; a case copies what it
// spoils.
class Ground {
 public:
  Ground();
  bool is_good() const { return complaint_.empty(); }
  const std::string& complaint() const { return complaint_; }

  std::string path(const std::string& name) const { return folder_.path(name); }
  // The good ones.
  std::string model() const { return path("model"); }
  std::string data() const { return path("train.tsv"); }
  std::string run() const { return path("run"); }
  std::string adapter() const { return path("adapter"); }

  // A file of this text. Returns its path.
  std::string file(const std::string& name, std::string_view text) const;
  // A copy of the model's folder in which one file has this text; an empty name copies only.
  std::string model_with(const std::string& name, std::string_view text) const;
  // A copy in which the first `from` in the file is `to`.
  std::string model_replacing(const std::string& name, std::string_view from, std::string_view to) const;
  std::string model_without(const std::string& name) const;
  // A copy of the weights' file, the header's JSON text changed and its length adjusted.
  std::string model_with_header(const std::function<void(std::string&)>& change) const;
  // A copy of the run.
  std::string run_copy() const;
  std::string adapter_copy() const;

  // Commands that read one kind of input.
  Words predict(const std::string& model) const;
  Words evaluate(const std::string& model, const std::string& validation_file, const Words& more = {}) const;
  Words plan(const std::string& config) const;
  Words tokenize(const std::string& tokenizer) const;
  Words train(const std::string& train_file, const Words& more = {}) const;
  Words train_adapter(const std::string& run, const Words& more) const;
  Words train_dummy(const Words& more = {}) const;
  Words resume(const std::string& run, const Words& more = {}) const;

 private:
  TestFolder folder_;
  std::string complaint_;
  mutable int copies_ = 0;
};

// One line of the table. What the program says must hold every word.
struct Case {
  std::string name;
  int exit_code;
  Words words;
  std::function<Words(const Ground&)> command;
};

// A command as it stands.
Case words(std::string name, int exit_code, Words message, Words command);
// A run over random ids, read and planned only.
Case argument(std::string name, int exit_code, Words message, Words more);
// The command without its --dry_run.
Words undried(Words command);
std::vector<Case> joined(const std::vector<std::vector<Case>>& tables);

std::vector<Case> weight_cases();
std::vector<Case> config_cases();
std::vector<Case> tokenizer_cases();
std::vector<Case> data_cases();
std::vector<Case> reader_cases();
std::vector<Case> argument_cases();
std::vector<Case> command_cases();
std::vector<Case> folder_cases();
std::vector<Case> adapter_cases();
std::vector<Case> checkpoint_cases();

// The first `from` in `text` becomes `to`; throws if it is not there, so that no case is spoiled in vain.
void replace_first(std::string& text, std::string_view from, std::string_view to);

}  // namespace plimsoll::testing
