// WordPiece: splits a word greedily into the longest tokens of a vocabulary (Schuster and Nakajima, "Japanese
// and Korean Voice Search", ICASSP 2012; the greedy form is that of BERT).
//
// It neither normalizes text nor finds words. Immutable after construction; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/byte_trie.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

// A token of a word and the offset after its last byte, counted from the start of the word.
struct WordToken {
  int32_t id = 0;
  uint32_t end = 0;
};

class WordPiece {
 public:
  // Requires: the unknown token is in the vocabulary.
  explicit WordPiece(const WordPieceSpec& spec);

  // Appends the tokens of one word, or only the unknown token if a part of the word matches no token or if
  // the word has more than max_chars_per_word code points. Requires: word is valid UTF-8, not empty, under 4
  // GiB. Cost: at most bytes x length of the longest token; in practice about one step per byte.
  void split(std::string_view word, std::vector<WordToken>* out) const;

  // Returns the id, or ByteTrie::kNoValue.
  int32_t find(std::string_view token) const { return trie_.find(token); }
  int32_t unk_id() const { return unk_id_; }

 private:
  ByteTrie trie_;
  ByteTrie::Node continuing_root_;  // the node reached by the continuing prefix
  int32_t unk_id_;
  size_t max_chars_per_word_;
};

}  // namespace plimsoll::text
