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
#include "io/text/subwords.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

class WordPiece {
 public:
  // Creates the model for a vocabulary. Requires: the unknown token is in the vocabulary.
  WordPiece(const Vocabulary& vocabulary, const WordPieceSpec& spec);

  // Appends the tokens of one word, or only the unknown token if a part of the word matches no token or if
  // the word has more than max_chars_per_word code points. Requires: word is valid UTF-8, not empty, under 4
  // GiB. Cost: at most bytes x length of the longest token; in practice about one step per byte.
  void split(std::string_view word, std::vector<WordToken>* out) const;

  // Returns the id of the unknown token.
  int32_t unk_id() const { return unk_id_; }

 private:
  // A trie of the tokens. Tokens inside a word begin with the continuing prefix ("##"). The search for them starts at the node of this
  // prefix, so that the prefix itself need not be followed each time.
  ByteTrie trie_;
  ByteTrie::Node continuing_root_;  // the node to which the continuing prefix leads
  int32_t unk_id_;
  size_t max_chars_per_word_;
};

}  // namespace plimsoll::text
