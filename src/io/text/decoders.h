// The decoders of tokenizer.json, which join the texts of tokens to a readable text.
//
// A decoder is a sequence of steps. Each step changes the list of texts, and the result is the concatenation of the final list,
// as in Hugging Face's tokenizers. Immutable after construction; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/json_fields.h"

namespace plimsoll::text {

using Texts = std::vector<std::string>;

// One step of a decoder.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void decode(Texts* texts) const = 0;
};

class Decoder {
 public:
  std::string decode(Texts texts) const;

  std::vector<std::unique_ptr<DecoderStep>> steps;
};

// Reads a decoder from JSON and appends its steps to `decoder`. A Sequence consists of several steps. Errors: kBadData for a type
// that Plimsoll does not implement, for missing or wrong fields, and for excessive nesting.
void read_decoder(const JsonFields& fields, Decoder* decoder);

// Removes spaces before punctuation and contractions, as clean_up_tokenization_spaces of transformers.
std::string clean_up_spaces(std::string text);

}  // namespace plimsoll::text
