// Looking into files: checkpoints, data files, tokenizers; and tokenizing lines of text. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/training.h"

namespace plimsoll {

struct Inspection {
  std::string text;  // lines for people
  // False for a checkpoint whose files are not what its manifest says; the text says which.
  bool is_whole = true;
};

// What is in a model folder, a checkpoint, a .safetensors file, a data file (.csv, .tsv, .json, .jsonl), a
// tokenizer folder or a file of a run (log.jsonl, plan.json, memory.json and their like).
// Errors: kBadData, kUsage.
Inspection inspect_path(const std::string& path);

// A tokenizer read from a Hugging Face folder.
class LineTokenizer {
 public:
  // `name` is a folder or a hub name in the local cache; `environment` says where that is. Errors: kBadData,
  // kUsage.
  explicit LineTokenizer(const std::string& name, const Environment& environment = {});
  ~LineTokenizer();
  // {"ids": [...], "offsets": [[begin, end], ...]}: offsets in code points, as Hugging Face's.
  std::string encode_json(std::string_view line) const;
  // Tokens with their ids, for people.
  std::string encode_for_people(std::string_view line) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
