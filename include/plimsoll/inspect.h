// Describes checkpoints, data files and tokenizers, and tokenizes lines of text. Thread-safe, except that one thread at a time
// may use a LineTokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

struct Inspection {
  std::string text;  // the description as lines for people
  // the description for programs: one JSON object on one line; docs/JSON.md describes its fields
  std::string json;
  // False for a checkpoint with files that do not match its manifest (the list of hashes); `text` names these files.
  bool is_whole = true;
};

// Determines how a data file is read: settings with the names that they have in a training run, and the environment for
// looking up hub names.
struct InspectOptions {
  std::vector<std::string> text_column_names = {};
  std::string label_column_name = "label";
  std::string problem_type = {};
  std::string label_delimiter = {};
  std::string quoting = "minimal";
  Environment environment = process_environment();
};

// Describes a model folder, a checkpoint, a .safetensors file, a data file (.csv, .tsv, .json, .jsonl), a
// tokenizer folder or a file that a run wrote (log.jsonl, plan.json, memory.json and similar). A hub name
// selects its folder in the local cache. Columns and labels of a data file are read in the same way as for
// training. If training would refuse the file, the text contains the reason. Errors: kBadData, kUsage.
Inspection inspect_path(const std::string& path, const InspectOptions& options = {});

// Selects whether decoded text contains special tokens such as [SEP].
enum class DecodedTokens : uint8_t { kAll, kWithoutSpecial };

// Checks by the first line of a file that it is text, not a Git LFS pointer, a compressed file or another kind of file.
// Errors: kBadData; the message begins with `name`.
void require_text(std::string_view first_line, const std::string& name);

// A tokenizer read from a Hugging Face folder.
class LineTokenizer {
 public:
  // Reads the tokenizer. `name` is a folder or a hub name in the local cache that `environment` defines.
  // Errors: kBadData, kUsage.
  explicit LineTokenizer(const std::string& name, const Environment& environment = process_environment());
  ~LineTokenizer();
  // Returns {"ids": [...], "offsets": [[begin, end], ...]}. Offsets count code points, as in Hugging Face's
  // tokenizers. Errors: kBadData for a line that is not valid UTF-8; the message names the byte and its
  // offset.
  std::string encode_json(std::string_view line) const;
  // Returns the tokens with their ids, formatted for people. Errors: as encode_json().
  std::string encode_for_people(std::string_view line) const;
  // Returns the text for a line of token ids. The line is a JSON array, or an object with the key "ids" as
  // encode_json() returns it. Errors: kBadData for any other line.
  std::string decode(std::string_view line, DecodedTokens tokens) const;
  // Returns the text that decode() returns as the JSON object {"text": "..."}.
  std::string decode_json(std::string_view line, DecodedTokens tokens) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Settings for training a tokenizer on text files. `kind` is "bpe" for a byte-level BPE tokenizer as in GPT-2, or
// "wordpiece" for a WordPiece tokenizer as in BERT.
struct TokenizerTraining {
  std::vector<std::string> files;
  std::string kind = "bpe";
  int64_t vocab_size = 30000;
  // smallest number of occurrences of a pair of symbols that is joined to a new token
  int64_t min_frequency = 2;
  std::vector<std::string>
      special_tokens;         // special tokens in addition to those of every tokenizer of this kind
  bool do_lower_case = true;  // the tokenizer converts text to lower case; only for "wordpiece"
};

struct TokenizerResult {
  std::string line;  // description of the tokenizer in one line for people
  int64_t num_tokens = 0;
  int64_t num_merges = 0;
  int64_t num_words = 0;  // number of different words in the training text
  int64_t num_bytes = 0;  // size of the training text
};

// Trains and writes tokenizer.json and tokenizer_config.json, which Hugging Face reads, to a folder that has no tokenizer yet.
// Errors: kUsage for wrong settings and for a folder with a tokenizer; kBadData for files that
// cannot be read or are not UTF-8.
TokenizerResult train_tokenizer(const TokenizerTraining& training, const std::string& output_dir);

}  // namespace plimsoll
