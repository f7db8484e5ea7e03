// The general pipeline of tokenizer.json, which converts a text to words by any sequence of normalizers (steps that change the
// text) and pre-tokenizers (steps that split it).
//
// The normalizer and pre-tokenizer of BERT also have a faster implementation (bert_normalizer.h, encode.cc), and so have
// byte-level tokenizers (byte_level.h). Everything else runs here, step by step, as in Hugging Face's tokenizers. The words do
// not depend on the model (WordPiece, BPE, Unigram or WordLevel) that then splits them into tokens. Immutable after construction;
// thread-safe, with one Words object per thread.
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

// A step of the pipeline that changes the text.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText* text) const = 0;
};

// A text and the parts into which it has been split so far. Each part is a range [begin, end) of code points of `text`.
// Pre-tokenizers split the parts further and may change their content.
struct Words {
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    int32_t origin = 0;  // the index in the original text of the code point at which the part begins
  };
  AlignedText text;
  std::vector<Part> parts;
};

// A step of the pipeline that splits the parts of a text into smaller ones.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(Words* words) const = 0;
};

// These functions read a normalizer or a pre-tokenizer of tokenizer.json and append it to `steps`. For a Sequence they append each element.
// Requires: describe() was called for the field and threw no error, so that the nesting is limited. Errors: kBadData for a type that
// Plimsoll does not implement, and for missing or wrong fields.
void read_normalizers(const JsonFields& fields, std::vector<std::unique_ptr<Normalizer>>* steps);
void read_pre_tokenizers(const JsonFields& fields, std::vector<std::unique_ptr<PreTokenizer>>* steps);

// Returns a text that describes a normalizer or pre-tokenizer completely and is used for hashes. Errors: kBadData if it is nested too
// deeply.
std::string describe(const JsonFields& fields);

// Reads the settings of a normalizer of type BertNormalizer.
NormalizerSpec read_bert_normalizer(const JsonFields& fields);
// Creates a normalizer of type BertNormalizer for the pipeline.
std::unique_ptr<Normalizer> make_bert_normalizer(const NormalizerSpec& spec);

// Reads a normalizer of type Precompiled, which is SentencePiece's table of replacements of strings by strings. The field
// "precompiled_charsmap" contains, in base64, a double-array trie of the strings, followed by their replacements. Errors:
// kBadData if it is malformed.
std::unique_ptr<Normalizer> read_precompiled(const JsonFields& fields);

class Pipeline {
 public:
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::string where;  // name of the file, for error messages
  // The text form of all steps, from which hashes of the tokenizer are computed.
  std::string description;

  void normalize(AlignedText* text) const;
  // Applies all pre-tokenizers to the text of `words`. Without pre-tokenizers the whole text is a single part.
  void split(Words* words) const;
  // Applies all pre-tokenizers except the last one, for which a faster implementation exists. Requires: there is at least one.
  void split_except_last(Words* words) const;

 private:
  void split_by(size_t num_steps, Words* words) const;
};

}  // namespace plimsoll::text
