// The decoders of tokenizer.json: from the texts of tokens to a text.
//
// Each step maps a list of texts to a list of texts; the result is their concatenation, as in Hugging Face's tokenizers.
// Immutable after construction; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/json_fields.h"

namespace plimsoll::text {

using Texts = std::vector<std::string>;

// One step of a decoder, which changes a list of texts.
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

// Reads a decoder; a Sequence appends each of its steps. Errors: kBadData for a type that Plimsoll does not have, for fields
// that are missing or wrong, and for too deep nesting.
void read_decoder(const JsonFields& fields, Decoder* decoder);

// Removes spaces before punctuation and contractions, as clean_up_tokenization_spaces of transformers.
std::string clean_up_spaces(std::string text);

}  // namespace plimsoll::text
