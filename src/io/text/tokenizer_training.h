// Trains tokenizers: learns the vocabulary and merges of a BPE or WordPiece model from the words of a text (bpe_trainer.cc), and
// writes the files that Hugging Face reads (tokenizer_training.cc).
//
// The result equals that of the trainers of Hugging Face's tokenizers for the same text, with one difference in the ids of tokens with a
// continuing prefix or an end suffix. Hugging Face's trainers assign these ids in the order of a hash table, which differs from run to run.
// Because the ids decide which of several pairs with equal counts is joined first, the merges can differ as well. Here the ids are assigned
// in the order of the sorted words, so that a text always gives the same tokenizer. Thread-safe: functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace plimsoll::text {

// The number of times that each word occurs.
using WordCounts = std::unordered_map<std::string, int64_t>;

struct BpeTraining {
  int64_t vocab_size = 30000;
  int64_t min_frequency = 0;                // pairs that occur less often are not merged
  std::vector<std::string> special_tokens;  // special tokens get the first ids
  std::u32string initial_alphabet;  // characters that get a token even if the text does not contain them
  std::optional<int64_t>
      limit_alphabet;             // the maximum number of characters; only the most frequent ones are kept
  std::string continuing_prefix;  // prefix of tokens inside a word, "##" for WordPiece
  std::string end_suffix;
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // token texts, by id
  std::vector<std::pair<int32_t, int32_t>> merges;  // the ids of the two tokens of each merge, by rank
};

// Joins the most frequent pair of adjacent tokens until the vocabulary is full. If several pairs have equal counts,
// it joins the pair with the lower ids. Requires: words are valid UTF-8. Cost: about a second per million different
// words.
TrainedBpe train_bpe(const WordCounts& words, const BpeTraining& options);

// The kind of tokenizer to train. kBpe is a byte-level tokenizer like GPT-2's, and kWordPiece is like BERT's, with at most 1,000
// different characters.
enum class TrainedModel : uint8_t { kBpe, kWordPiece };

struct TrainingOptions {
  TrainedModel model = TrainedModel::kBpe;
  int64_t vocab_size = 30000;
  int64_t min_frequency = 2;
  // Special tokens in addition to the standard ones, which are <|endoftext|> for BPE, and [PAD] [UNK] [CLS] [SEP] [MASK] for
  // WordPiece.
  std::vector<std::string> special_tokens = {};
  bool lowercase = true;  // converts the text to lower case; only for WordPiece
  int num_threads = 1;
};

struct TrainedTokenizer {
  std::string tokenizer_json, tokenizer_config_json;
  int64_t num_bytes = 0;  // total size of the text files in bytes
  int64_t num_words = 0;  // number of different words in the text
  int64_t num_tokens = 0;
  int64_t num_merges = 0;
};

// Trains a tokenizer on the lines of text files, with their line breaks. Requires: paths is not empty. Errors: kBadData for a file that
// cannot be read, that is not UTF-8 (with the number of the line), or for files without text; kUsage for a folder, and for a vocabulary
// without room for the special tokens and the alphabet.
TrainedTokenizer train_tokenizer(const std::vector<std::string>& paths, const TrainingOptions& options);

}  // namespace plimsoll::text
