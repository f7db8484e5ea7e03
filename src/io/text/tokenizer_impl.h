// The implementation of a Tokenizer: the data built from a description, and the encoding. Only the sources of
// the tokenizer include it. Immutable after construction; thread-safe with one ScratchImpl per thread.
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

// The tokens of one text of a pair. `words` has the index of each token's word if the text was given as words.
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

// The meaning of a byte of normalized text for BertPreTokenizer.
enum class ByteClass : uint8_t { kWord, kSpace, kPunctuation, kNotAscii };

// The buffers of the general pipeline.
struct PipelineScratch {
  AlignedText text;
  Words words;
  size_t first_token = 0;       // index of the first token of the current text
  std::string bytes;            // bytes of the normalized text, or of a word
  std::vector<size_t> char_of;  // for each byte, its code point
};

struct ScratchImpl {
  PipelineScratch pipeline;
  std::string valid_text;
  std::string spaced_text;  // a text with the space that add_prefix_space inserts
  NormalizedText normalized;
  std::vector<TextPart> raw_parts, normalized_parts;
  std::vector<WordToken> word_tokens;
  ModelScratch model;
  Sequence first, second;
};

// The state of encode_byte_part() between its calls for the parts of one text.
struct ByteWords {
  std::string_view text;
  int32_t first_code_point = 0;
  int32_t num_added = 0;  // code points that are not in the original text: a space at the beginning
  Offsets offsets = Offsets::kRecord;
  int32_t num_chars = 0;  // code points of `text` that start before the byte `counted`
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
  // Counts the words of a text as the model sees them. Added tokens are not recognized. Requires: valid UTF-8.
  void count_words(std::string_view text, WordCounts* counts) const;
  // Returns the normalized text.
  std::string normalize(std::string_view text) const;

  const TokenizerSpec spec_;
  const BertNormalizer normalizer_;
  const TokenModel model_;
  const AddedTokenMatcher raw_tokens_, normalized_tokens_;
  const std::array<ByteClass, 256> byte_classes_;
  std::vector<AddedToken> added_by_id_;
  std::map<std::string_view, int32_t> added_ids_;
  std::set<std::string_view> special_texts_;      // texts of the special added tokens
  std::map<int32_t, std::string> decoded_texts_;  // texts of the added tokens that a normalizer changes
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

// Computes how many tokens of each text remain after truncation, with the same rules as Hugging Face's tokenizers.
struct KeptTokens {
  int64_t first = 0;
  int64_t second = 0;
};

// Returns the number of tokens to keep of texts with `first` and `second` tokens (0 if there is no second
// text), so that at most max_tokens remain. Longest first: the longer text is cut until both have equal
// length, then both are cut; an odd token goes to the text that was longer, or to the second if both were
// equal. Errors: kUsage if kOnlyFirst or kOnlySecond would leave its text without a token.
KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy);

}  // namespace plimsoll::text
