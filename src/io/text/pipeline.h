// The general pipeline of tokenizer.json: any sequence of normalizers and pre-tokenizers, from a text to words.
//
// BERT's own normalizer and pre-tokenizer have a faster path (bert_normalizer.h, encode.cc); everything else runs here, step by step, as
// in Hugging Face's tokenizers. The result is independent of the model: WordPiece, BPE, Unigram and WordLevel read the same words.
// Immutable after construction; thread-safe, with one set of Words per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/aligned_text.h"
#include "io/text/json_fields.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

// A step that changes a text.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText* text) const = 0;
};

// Parts of a text: code points [begin, end) of `text`. A step may split parts and change their content.
struct Words {
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    int32_t origin = 0;  // the position in the original text at which the part begins
  };
  AlignedText text;
  std::vector<Part> parts;
};

// A step that splits parts into smaller ones.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(Words* words) const = 0;
};

// Reads a normalizer or pre-tokenizer of tokenizer.json; a Sequence appends each of its steps. Requires: describe() was
// called for the field. Errors: kBadData for a type that Plimsoll does not have, and for fields that are missing or wrong.
void read_normalizers(const JsonFields& fields, std::vector<std::unique_ptr<Normalizer>>* steps);
void read_pre_tokenizers(const JsonFields& fields, std::vector<std::unique_ptr<PreTokenizer>>* steps);

// Returns a field as text, for hashes. Errors: kBadData if it is nested too deeply for a pipeline.
std::string describe(const JsonFields& fields);

// Reads the fields of a BertNormalizer.
NormalizerSpec read_bert_normalizer(const JsonFields& fields);
// Creates the step of a BertNormalizer.
std::unique_ptr<Normalizer> make_bert_normalizer(const NormalizerSpec& spec);

// Reads the map of the Precompiled normalizer, SentencePiece's map from strings to strings, from the field
// "precompiled_charsmap": base64 of a double array and the strings to which it points. Errors: kBadData if it is
// malformed.
std::unique_ptr<Normalizer> read_precompiled(const JsonFields& fields);

class Pipeline {
 public:
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::string where;  // the file, for errors
  // Everything that determines the steps, for hashes.
  std::string description;

  void normalize(AlignedText* text) const;
  // Splits the text of `words` into its parts. Without pre-tokenizers the text is a single part.
  void split(Words* words) const;
  // Splits as split() does, but without the last pre-tokenizer. Requires: there is a pre-tokenizer.
  void split_except_last(Words* words) const;

 private:
  void split_by(size_t num_steps, Words* words) const;
};

}  // namespace plimsoll::text
