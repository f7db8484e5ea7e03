// Looking into files: checkpoints, data files, tokenizers; and tokenizing lines of text. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

struct Inspection {
  std::string text;  // lines for people
  // False for a checkpoint whose files are not what its manifest says; the text says which.
  bool is_whole = true;
};

// How a data file is read, in the words of the arguments of a run, and where hub names are looked up.
struct InspectOptions {
  std::vector<std::string> text_column_names = {};
  std::string label_column_name = "label";
  std::string problem_type = {};
  Environment environment = {};
};

// What is in a model folder, a checkpoint, a .safetensors file, a data file (.csv, .tsv, .json, .jsonl), a
// tokenizer folder or a file of a run (log.jsonl, plan.json, memory.json and their like); a hub name stands
// for its folder in the local cache. Columns and labels of a data file are read as training reads them; where
// training refuses the file, the text says so.
// Errors: kBadData, kUsage.
Inspection inspect_path(const std::string& path, const InspectOptions& options = {});

// A tokenizer read from a Hugging Face folder.
class LineTokenizer {
 public:
  // `name` is a folder or a hub name in the local cache; `environment` says where that is. Errors: kBadData,
  // kUsage.
  explicit LineTokenizer(const std::string& name, const Environment& environment = {});
  ~LineTokenizer();
  // {"ids": [...], "offsets": [[begin, end], ...]}: offsets in code points, as Hugging Face's.
  // Errors of this and the next: kBadData for a line that is not UTF-8 (the byte and its offset).
  std::string encode_json(std::string_view line) const;
  // Tokens with their ids, for people.
  std::string encode_for_people(std::string_view line) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
