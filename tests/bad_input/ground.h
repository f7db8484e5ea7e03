// Valid files for the tests of bad input, and functions that damage copies of them.
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
// with a checkpoint, a run that trained an adapter, and data. It is created once, by training; each case
// copies what it changes.
class Ground {
 public:
  Ground();
  bool is_good() const { return complaint_.empty(); }
  const std::string& complaint() const { return complaint_; }

  std::string path(const std::string& name) const { return folder_.path(name); }
  // The following functions return the paths of the valid files and folders.
  std::string model() const { return path("model"); }
  std::string data() const { return path("train.tsv"); }
  std::string run() const { return path("run"); }
  std::string adapter() const { return path("adapter"); }

  // Creates a file with this content. Returns its path.
  std::string file(const std::string& name, std::string_view text) const;
  // Copies the model's folder and replaces the content of one file; an empty name only copies.
  std::string model_with(const std::string& name, std::string_view text) const;
  // Copies the model's folder and replaces the first `from` in the file by `to`.
  std::string model_replacing(const std::string& name, std::string_view from, std::string_view to) const;
  std::string model_without(const std::string& name) const;
  // Copies the model's folder and changes the JSON header of its safetensors file, including the stored
  // length of the header. Returns the path of the copy.
  std::string model_with_header(const std::function<void(std::string&)>& change) const;
  // Copy the output folder of the run that has a checkpoint, and the folder of the adapter. Return the path of the copy.
  std::string run_copy() const;
  std::string adapter_copy() const;

  // Each of these functions returns the words of a command line of `plimsoll` that reads the given files or folders;
  // `more` are further arguments.
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

// One test case: a command, the exit code that it must have, and texts that its output must contain.
struct Case {
  std::string name;
  int exit_code;
  Words words;
  std::function<Words(const Ground&)> command;
};

// Returns a case with this complete command.
Case words(std::string name, int exit_code, Words message, Words command);
// Returns a case that makes a dry run on random ids with these further arguments.
Case argument(std::string name, int exit_code, Words message, Words more);
// Returns the command line without the argument --dry_run, so that it really runs.
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
std::vector<Case> disguise_cases();
std::vector<Case> spelling_cases();
std::vector<Case> settings_cases();
std::vector<Case> packed_cases();
std::vector<Case> corpus_cases();
std::vector<Case> generate_cases();
std::vector<Case> chat_cases();

// Replaces the first `from` in `text` by `to`. Throws if it does not occur, so that every case really changes
// its input.
void replace_first(std::string& text, std::string_view from, std::string_view to);

}  // namespace plimsoll::testing
