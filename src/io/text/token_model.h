// The model of a tokenizer: WordPiece, BPE, Unigram or WordLevel, with a cache per thread of the words that were
// split before.
//
// Immutable after construction; thread-safe with one ModelScratch per thread. A model keeps references to its
// description, which must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "io/text/bpe.h"
#include "io/text/subwords.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/unigram.h"
#include "io/text/word_piece.h"

namespace plimsoll::text {

// Buffers of one thread. They may be used with several models one after the other.
struct ModelScratch {
  uint64_t model = 0;           // the number of the model to which the caches belong
  WordCache words, byte_words;  // the caches of split() and of split_bytes()
  BpeScratch bpe;
  UnigramScratch unigram;
};

class TokenModel {
 public:
  explicit TokenModel(const ModelSpec& spec);
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the tokens of one word. Requires: word is valid UTF-8, not empty, under 2 GiB. Errors: kBadData if the model
  // has no token for a part of the word, nor one for unknown parts.
  void split(std::string_view word, ModelScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true for a BPE model whose words can be given as bytes.
  bool is_byte_level() const;
  // Splits a word that is given as bytes, each of which the vocabulary represents by a character (byte_level.h).
  // Requires: is_byte_level().
  void split_bytes(std::string_view bytes, ModelScratch& scratch, std::vector<WordToken>* out) const;

  // Returns the id of a token, or kNoToken.
  int32_t find(std::string_view token) const { return ids_.find(token); }
  // Returns the id of the unknown token, or kNoToken.
  int32_t unk_id() const;

 private:
  struct WordLevel {
    int32_t unk_id;
  };
  using Model = std::variant<WordPiece, Bpe, Unigram, WordLevel>;
  static Model make_model(const ModelSpec& spec, const TokenIds& ids);
  void split_cached(std::string_view word, ModelScratch& scratch, std::vector<WordToken>* out) const;
  void claim(ModelScratch& scratch) const;

  TokenIds ids_;
  Model model_;
  bool splits_before_mark_;  // a long word is split before each mark, which changes no token
  uint64_t number_;          // distinguishes the models of a process
};

}  // namespace plimsoll::text
