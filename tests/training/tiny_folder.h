// A model folder without weights and arguments for runs of some milliseconds, for tests of the training loop.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "plimsoll/arguments.h"
#include "plimsoll/error.h"

namespace plimsoll::testing {

// A folder of this test alone, emptied first; removed when the object goes.
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

// Twelve steps of two micro-batches over dummy data, with dropout and random order, a save after each.
Arguments tiny_arguments(const std::string& model, const std::string& output_dir);

// Puts a vocabulary beside the model and writes rows of 1 to 20 words of one letter with two labels, a third
// of them long, in an order that looks random. Returns the file.
std::string write_uneven_rows(const TestFolder& folder, int num_rows);

std::string read_file(const std::string& path);

// Writes FOLDER/base, a tiny model with weights, as one that adapters can be saved for. Returns the folder.
std::string write_tiny_base(const TestFolder& folder);

// The message of the error that a call ends with; a failure of the test where its code is another, or where
// the call ends without one.
std::string refusal(const std::function<void()>& call, ErrorCode code);

}  // namespace plimsoll::testing
