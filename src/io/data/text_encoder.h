// The interface through which src/io/data uses a tokenizer. TokenizerEncoder implements it with the tokenizer of src/io/text, and tests
// implement small tokenizers. Thread-safety: several threads may use one encoder; each thread needs its own session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Encodes texts in one thread, with its own buffers. The encoder must outlive its sessions.
  class Session {
   public:
    virtual ~Session() = default;
    // Appends the ids and token types of a text or a pair of texts to the two vectors, including special tokens. At most max_length
    // tokens are appended. Returns the number of tokens that were dropped because of this limit. Requires: `ids` and `types` have equal
    // lengths; the same number of elements is appended to both.
    virtual int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                           std::vector<int32_t>& ids, std::vector<int32_t>& types) = 0;
    // Encodes a text that is already split into words, in the same way as encode(). For each token it also appends the index of the word
    // if the token is the first one of a word, and otherwise -1.
    virtual int64_t encode_words(std::span<const std::string_view> words, int64_t max_length,
                                 std::vector<int32_t>& ids, std::vector<int32_t>& types,
                                 std::vector<int32_t>& word_starts) = 0;
  };
  virtual std::unique_ptr<Session> new_session() const = 0;

  // Returns a hash of the tokenizer's files and settings. Two encoders that return different ids for any text have different hashes.
  virtual uint64_t content_hash() const = 0;
};

// Implements TextEncoder with the tokenizer of src/io/text. Thread-safe. The tokenizer must outlive the encoder.

class TokenizerEncoder : public TextEncoder {
 public:
  explicit TokenizerEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Creates a session. If a pair of texts is too long, tokens of the longer text are dropped first, as in run_glue. Errors of encode:
  // those of Tokenizer::append.
  std::unique_ptr<Session> new_session() const override;
  uint64_t content_hash() const override { return tokenizer_.content_hash().low; }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace plimsoll
