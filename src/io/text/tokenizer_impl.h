// The implementation of a Tokenizer: the data built from a description, and the encoding. Only the sources and
// tests of the tokenizer include this header. Immutable after construction; thread-safe with one ScratchImpl per thread.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/added_tokens.h"
#include "io/text/bert_normalizer.h"
#include "io/text/pipeline.h"
#include "io/text/token_model.h"
#include "io/text/tokenizer.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/tokenizer_training.h"

namespace plimsoll::text {

// The tokens of one text before truncation. If the text was given as words, `words` contains the index of the word of each token.
struct Sequence {
  std::vector<int32_t> ids;
  std::vector<TextSpan> offsets;
  std::vector<int32_t> words;

  void clear() {
    ids.clear();
    offsets.clear();
    words.clear();
  }
};

// The class to which BertPreTokenizer assigns a byte of normalized text.
enum class ByteClass : uint8_t { kWord, kSpace, kPunctuation, kNotAscii };

// Temporary memory of the general pipeline.
struct PipelineScratch {
  AlignedText text;
  Words words;
  size_t first_token = 0;       // number of tokens that were appended before the current text
  std::string bytes;            // UTF-8 of the normalized text or of a word
  std::vector<size_t> char_of;  // for each byte, the index of its code point
};

struct ScratchImpl {
  PipelineScratch pipeline;
  std::string valid_text;
  std::string spaced_text;  // the space that add_prefix_space inserts, followed by a copy of the text
  NormalizedText normalized;
  std::vector<TextPart> raw_parts, normalized_parts;
  std::vector<WordToken> word_tokens;
  ModelScratch model;
  Sequence first, second;
};

// The state for encoding one text of a byte-level tokenizer. encode_byte_part() is called for each part of the text and updates it.
struct ByteWords {
  std::string_view text;
  int32_t first_code_point = 0;
  // number of code points of `text` that are not in the original text: 1 if a space was inserted at the beginning, otherwise 0
  int32_t num_added = 0;
  Offsets offsets = Offsets::kRecord;
  int32_t num_chars = 0;  // number of code points of `text` that start before byte `counted`
  size_t counted = 0;
};

class TokenizerImpl {
 public:
  explicit TokenizerImpl(TokenizerSpec spec);

  AppendedTokens append(const TextPair& text, const EncodeOptions& options, ScratchImpl& scratch,
                        Encoding* out) const;
  AppendedTokens append_words(std::span<const std::string_view> words, const EncodeOptions& options,
                              ScratchImpl& scratch, Encoding* out) const;
  std::optional<int32_t> id(std::string_view token) const;
  std::optional<std::string_view> token(int32_t id) const;
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options) const;
  int64_t num_special_tokens(bool pair) const;
  // Splits a text into words as for encoding, and adds the number of occurrences of each word to `counts`. Added tokens are not
  // recognized. Requires: valid UTF-8.
  void count_words(std::string_view text, WordCounts* counts) const;
  // Returns the text after normalization.
  std::string normalize(std::string_view text) const;

  const TokenizerSpec spec_;
  const BertNormalizer normalizer_;
  const TokenModel model_;
  const AddedTokenMatcher raw_tokens_, normalized_tokens_;
  const std::array<ByteClass, 256> byte_classes_;
  std::vector<AddedToken> added_by_id_;
  std::map<std::string_view, int32_t> added_ids_;
  std::set<std::string_view> special_texts_;  // texts of the special added tokens
  // the normalized texts of the added tokens that are matched in normalized text, by id; decoding returns these texts
  std::map<int32_t, std::string> decoded_texts_;
  SpecialTokenIds special_ids_;
  int64_t vocab_size_ = 0;
  int32_t max_id_ = 0;
  Hash128 hash_;

 private:
  enum class TextCount : uint8_t { kOne, kPair };

  void encode_text(std::string_view text, Offsets offsets, ScratchImpl& scratch, Sequence* out) const;
  AppendedTokens append_sequences(TextCount count, const EncodeOptions& options, const ScratchImpl& scratch,
                                  Encoding* out) const;
  int32_t encode_plain(std::string_view text, int32_t first_code_point, Offsets offsets, ScratchImpl& scratch,
                       Sequence* out) const;
  int32_t encode_with_pipeline(std::string_view text, int32_t first_code_point, Offsets offsets,
                               ScratchImpl& scratch, Sequence* out) const;
  int32_t encode_byte_level(std::string_view text, int32_t first_code_point, Offsets offsets,
                            ScratchImpl& scratch, Sequence* out) const;
  void encode_byte_words(std::string_view text, int32_t first_code_point, Offsets offsets,
                         ScratchImpl& scratch, Sequence* out) const;
  void encode_byte_part(size_t begin, size_t end, ByteWords& words, ScratchImpl& scratch,
                        Sequence* out) const;
  void encode_pieces(size_t begin, size_t end, Offsets offsets, ScratchImpl& scratch, Sequence* out) const;
  void trim_offsets(std::u32string_view chars, const ScratchImpl& scratch, Sequence* out) const;
  void trim_span(int32_t leading, int32_t trailing, const ScratchImpl& scratch, Sequence* out) const;
  void append_added(int32_t id, TextSpan span, std::string_view match, Offsets offsets,
                    const ScratchImpl& scratch, Sequence* out) const;
  void encode_words(const NormalizedText& text, size_t begin, size_t end, Offsets offsets,
                    ScratchImpl& scratch, Sequence* out) const;
  size_t word_end(std::string_view bytes, size_t begin) const;
  void set_special_ids();
  Hash128 hash_content() const;
};

// The number of tokens of each text of a pair that remain after truncation.
struct KeptTokens {
  int64_t first = 0;
  int64_t second = 0;
};

// Computes how many tokens of a pair with `first` and `second` tokens remain (`second` is 0 for a single text), so that at most
// max_tokens remain in total. The rules are those of Hugging Face's tokenizers. kLongestFirst shortens the longer text until both
// are equally long, and then both; an odd token remains in the text that was longer, or in the second one if both were equally
// long. Errors: kUsage if kOnlyFirst or kOnlySecond would leave no token of the text that it shortens.
KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy);

}  // namespace plimsoll::text
