// The unigram language model: splits a word into the tokens with the largest sum of scores (Kudo, "Subword
// Regularization", ACL 2018), as in SentencePiece and Hugging Face's tokenizers.
//
// Scores are added in double precision from left to right. If several splits have equal sums, the split whose last
// token starts first is used. Immutable after construction; thread-safe with one UnigramScratch per thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/text/byte_trie.h"
#include "io/text/subwords.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

// Temporary memory for splitting, which is reused for all words. Each thread needs its own.
struct UnigramScratch {
  // The best way to split the beginning of the word up to a position, that is, the one with the largest sum of scores.
  struct Node {
    double score = 0;
    int32_t id = kNoToken;  // id of the last token of this split
    // position at which the last token begins; -1 if no sequence of tokens covers the word up to this position
    int32_t begin = -1;
  };
  std::vector<Node> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> parts;
};

class Unigram {
 public:
  Unigram(const Vocabulary& vocabulary, const TokenIds& ids, const UnigramSpec& spec);

  // Appends the tokens of one word. Requires: word is valid UTF-8, not empty, under 2 GiB. Errors: kBadData if no token
  // matches a character and the model has no unknown token. Cost: at most bytes x length of the longest token.
  void split(std::string_view word, UnigramScratch& scratch, std::vector<WordToken>* out) const;

  int32_t unk_id() const { return spec_.unk_id.value_or(kNoToken); }

 private:
  const TokenIds& ids_;
  const UnigramSpec& spec_;
  ByteTrie trie_;
  double unk_score_ = 0;
  std::array<int32_t, 256> fallback_ids_{};
};

}  // namespace plimsoll::text
