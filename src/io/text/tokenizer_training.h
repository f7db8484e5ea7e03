// Trains a tokenizer on text files, and describes it by the files that Hugging Face reads.
//
// A BPE tokenizer is byte-level, as GPT-2's. A WordPiece tokenizer is that of BERT. The vocabulary and the merges equal those of
// Hugging Face's trainers (bpe_trainer.h) with the same options: lines with their line breaks, and for WordPiece an alphabet of
// 1,000 characters. Thread-safe: free functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::text {

enum class TrainedModel : uint8_t { kBpe, kWordPiece };

struct TrainingOptions {
  TrainedModel model = TrainedModel::kBpe;
  int64_t vocab_size = 30000;
  int64_t min_frequency = 2;
  std::vector<std::string> special_tokens = {};  // after <|endoftext|>, or [PAD] [UNK] [CLS] [SEP] [MASK]
  bool lowercase = true;                         // only for WordPiece
  int num_threads = 1;
};

struct TrainedTokenizer {
  std::string tokenizer_json, tokenizer_config_json;
  int64_t num_bytes = 0;  // of the files
  int64_t num_words = 0;  // different ones
  int64_t num_tokens = 0;
  int64_t num_merges = 0;
};

// Requires: paths is not empty. Errors: kBadData for a file that cannot be read, that is not UTF-8 (with the number of the line), or
// for files without text; kUsage for a folder, and for a vocabulary without room for the special tokens and the alphabet.
TrainedTokenizer train_tokenizer(const std::vector<std::string>& paths, const TrainingOptions& options);

}  // namespace plimsoll::text
