// The model of a tokenizer, which splits words into tokens: WordPiece, BPE, Unigram or WordLevel, together with a cache of the
// tokens of words that were split before.
//
// Immutable after construction; thread-safe with one ModelScratch per thread. A model refers to the ModelSpec from which it was
// made, which must outlive it.
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

// Caches and temporary memory of one thread. A thread may use the same object for several models, one after the other.
struct ModelScratch {
  uint64_t model = 0;           // the number_ of the TokenModel whose tokens are cached
  WordCache words, byte_words;  // the caches of split() and split_bytes()
  BpeScratch bpe;
  UnigramScratch unigram;
};

class TokenModel {
 public:
  explicit TokenModel(const ModelSpec& spec);
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the tokens of one word. Requires: the word is valid UTF-8, not empty, and smaller than 2 GiB. Errors: kBadData if the
  // model has no token for a part of the word and no unknown token either.
  void split(std::string_view word, ModelScratch& scratch, std::vector<WordToken>* out) const;

  // Returns true if split_bytes() may be used, which is possible for byte-level BPE models only.
  bool is_byte_level() const;
  // Splits a word like split(), but takes its original bytes instead of the printable characters that represent them
  // (byte_level.h). Requires: is_byte_level().
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
  // True if a long text may be divided before each word mark (U+2581) and its parts split into tokens separately, which gives the same
  // tokens in less time.
  bool splits_before_mark_;
  // A number that no other model of the process has. A cache whose number differs belongs to another model and must be cleared.
  uint64_t number_;
};

}  // namespace plimsoll::text
