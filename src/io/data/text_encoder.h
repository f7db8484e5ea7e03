// The interface of a tokenizer for io/data. TokenizerEncoder adapts the tokenizer of io/text to it, and tests
// implement small ones. Thread-safety: several threads may use an encoder, and one thread a session.
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

  // Encodes texts for one thread, with buffers of its own. The encoder must outlive its sessions.
  class Session {
   public:
    virtual ~Session() = default;
    // Appends the ids and token types of a text or a pair, including special tokens, at most max_length in
    // total. Returns the number of tokens that were cut. Requires: ids and types have equal lengths; the same
    // number of elements is appended to both.
    virtual int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                           std::vector<int32_t>& ids, std::vector<int32_t>& types) = 0;
    // Encodes one text that is already split into words, as encode() does. For each token it also appends the index
    // of the word whose first token it is, or -1.
    virtual int64_t encode_words(std::span<const std::string_view> words, int64_t max_length,
                                 std::vector<int32_t>& ids, std::vector<int32_t>& types,
                                 std::vector<int32_t>& word_starts) = 0;
  };
  virtual std::unique_ptr<Session> new_session() const = 0;

  // Returns a hash of the tokenizer's files and settings. It changes if encode would return other ids for any
  // text.
  virtual uint64_t content_hash() const = 0;
};

// Adapts the tokenizer of io/text to the interface above. Thread-safe. The tokenizer must outlive the encoder.

class TokenizerEncoder : public TextEncoder {
 public:
  explicit TokenizerEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Creates a session. Pairs are truncated longest first, as in run_glue. Errors of encode: as
  // Tokenizer::append.
  std::unique_ptr<Session> new_session() const override;
  uint64_t content_hash() const override { return tokenizer_.content_hash().low; }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace plimsoll
