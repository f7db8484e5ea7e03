// Learns the vocabulary and merges of a BPE or WordPiece model from the words of a text.
//
// The result equals that of the trainers of Hugging Face's tokenizers for the same counts of words, with one difference: there,
// tokens with a continuing prefix or suffix get their ids in the order of a hash table, which differs from run to run, and
// equal counts are decided by ids. Here the order is that of the sorted words, so that a text always gives the same tokenizer.
// Thread-safe: functions on values.
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
  int64_t min_frequency = 0;                // rarer pairs are not joined
  std::vector<std::string> special_tokens;  // they have the first ids
  std::u32string initial_alphabet;          // characters that get a token even if they do not occur
  std::optional<int64_t>
      limit_alphabet;             // the number of different characters that are kept, the most frequent ones
  std::string continuing_prefix;  // "##" for WordPiece
  std::string end_suffix;
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // by id
  std::vector<std::pair<int32_t, int32_t>> merges;  // pairs of ids by rank
};

// Joins the most frequent pair of adjacent tokens until the vocabulary is full; of pairs with equal counts, that with
// the lower ids. Requires: words are valid UTF-8. Cost: about a second per million different words.
TrainedBpe train_bpe(const WordCounts& words, const BpeTraining& options);

}  // namespace plimsoll::text
