// Adapts the tokenizer of io/text to the data room. Thread-safe. The tokenizer must outlive the encoder.
#pragma once

#include <cstdint>
#include <memory>

#include "io/data/text_encoder.h"
#include "io/text/tokenizer.h"

namespace plimsoll {

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
