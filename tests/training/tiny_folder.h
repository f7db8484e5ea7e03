// A model folder without weights, and arguments for runs of a few milliseconds, for tests of the training
// loop.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "plimsoll/arguments.h"
#include "plimsoll/error.h"

namespace plimsoll::testing {

// A temporary folder for one test. The constructor empties it, and the destructor removes it.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name);
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string path(const std::string& name) const { return (root_ / name).string(); }

 private:
  std::filesystem::path root_;
};

// Writes FOLDER/model/config.json of a tiny BERT. Returns the folder.
std::string write_tiny_model(const TestFolder& folder, double dropout = 0.1);

// Returns arguments for twelve steps of two micro-batches on dummy data, with dropout and random order. The run saves a
// checkpoint after each step.
Arguments tiny_arguments(const std::string& model, const std::string& output_dir);

// Adds a vocabulary to the model and writes a data file with two labels. Its rows have 1 to 20 words of one
// letter, a third of the rows are long, and their order is pseudo-random. Returns the path of the file.
std::string write_uneven_rows(const TestFolder& folder, int num_rows);

std::string read_file(const std::string& path);

// Writes FOLDER/base, a tiny model with weights, for which adapters can be saved. Returns the folder.
std::string write_tiny_base(const TestFolder& folder);

// Returns the message of the error with which a call ends. The test fails if its code differs or the call
// succeeds.
std::string refusal(const std::function<void()>& call, ErrorCode code);

}  // namespace plimsoll::testing
