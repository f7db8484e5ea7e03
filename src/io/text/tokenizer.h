// The WordPiece tokenizer of BERT and its relatives: text in, token ids, token types and offsets out, equal
// to those of Hugging Face's `tokenizers` on every input (see "Where it differs" below).
//
// What it is: the whole path of a Hugging Face tokenizer whose model is WordPiece: added tokens in two
// passes, BertNormalizer, BertPreTokenizer, WordPiece, truncation, BertProcessing or TemplateProcessing. What
// it is not: no decoder, no padding (Plimsoll lays sequences end to end; the attention mask of every token
// made here is 1), no other tokenizer models: a folder that needs one is refused by name.
//
// Invalid UTF-8 is defined input: each maximal invalid part counts as one U+FFFD, exactly as Python's
// bytes.decode("utf-8", errors="replace") has it, and offsets count it as one code point.
//
// Where it differs from Hugging Face on purpose: a max_length below the number of special tokens is an error
// (there the count wraps around and nothing is cut), and a folder that gives an added token another id than
// Hugging Face would use is an error (there a warning, and ids that the model was not trained with). Where
// cls_token or sep_token of another file contradicts tokenizer.json's template, the template counts
// (transformers 5 makes a new one of the roles).
//
// Ownership and threads: a Tokenizer is immutable once loaded; any number of threads may encode with it at
// once, each with a TokenizerScratch of its own. Encodings own their vectors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace plimsoll {

namespace text {
class TokenizerImpl;
struct ScratchImpl;
struct TokenizerSpec;
}  // namespace text

// Where a token came from: code points [begin, end) of its text. Special tokens that the tokenizer adds have
// {0, 0}.
struct TextSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// Hugging Face's strategies: which text of a pair gives way. For a single text the first two are the same.
enum class Truncation : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
// At which end tokens are cut (truncation_side) or padding would go (padding_side).
enum class TextSide : uint8_t { kRight, kLeft };
enum class SpecialTokens : uint8_t { kAdd, kOmit };
enum class Offsets : uint8_t { kRecord, kSkip };

struct EncodeOptions {
  // Tokens in all, special tokens included; nothing means no limit.
  std::optional<int64_t> max_length = std::nullopt;
  Truncation truncation = Truncation::kLongestFirst;
  // Nothing means the folder's truncation_side.
  std::optional<TextSide> truncation_side = std::nullopt;
  SpecialTokens special_tokens = SpecialTokens::kAdd;
  Offsets offsets = Offsets::kRecord;
};

// Tokens of one text or pair, or of several one after the other (append). The vectors have equal lengths;
// offsets stays empty with Offsets::kSkip.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<TextSpan> offsets;  // each relative to its own text of the pair
  int64_t num_cut = 0;            // tokens that truncation removed

  void clear();  // keeps the memory
};

// What one append added.
struct AppendedTokens {
  int64_t num_tokens = 0;
  int64_t num_cut = 0;
};

// Buffers of one thread. They grow to the largest text seen; after that append allocates nothing of its own.
class TokenizerScratch {
 public:
  TokenizerScratch();
  ~TokenizerScratch();
  TokenizerScratch(TokenizerScratch&&) noexcept;
  TokenizerScratch& operator=(TokenizerScratch&&) noexcept;

 private:
  friend class Tokenizer;
  std::unique_ptr<text::ScratchImpl> impl_;
};

// A text, or a pair where second is present.
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

// The tokens with a role. Absent where the folder names none or the vocabulary lacks it.
struct SpecialTokenIds {
  std::optional<int32_t> pad, unk, cls, sep, mask, bos, eos;
};

// A token that is matched in the text before the model sees it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only between characters that are no word characters
  bool lstrip = false;       // swallows white space to its left
  bool rstrip = false;
  bool normalized = false;  // matched in the normalised text (second pass), not in the raw text
  bool special = false;
};

// What the folder says about truncation: a default for callers, never applied by encode itself.
struct TruncationDefault {
  int64_t max_length = 0;
  Truncation strategy = Truncation::kLongestFirst;
  TextSide side = TextSide::kRight;
};

class Tokenizer {
 public:
  // Reads a Hugging Face folder: tokenizer.json, else vocab.txt; with tokenizer_config.json,
  // special_tokens_map.json and added_tokens.json where present. Settings in tokenizer_config.json win over
  // tokenizer.json's, as in transformers. Errors: kBadData naming the file (and line of vocab.txt), what is
  // wrong and what to do. Cost: about 65 ms for 30,522 tokens,
  // most of it reading JSON.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Encodes one text or pair into fresh vectors. Errors: those of append.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  // Appends the tokens of one text or pair to `out` (num_cut is added up). The hot path: allocates only where
  // scratch or the vectors of `out` have to grow. On an error `out` is unchanged. Errors: kUsage if
  // max_length has no room for the special tokens, or if kOnlyFirst / kOnlySecond cannot cut enough; kBadData
  // for a text of more than 715 million bytes.
  AppendedTokens append(const TextPair& text, const EncodeOptions& options, TokenizerScratch& scratch,
                        Encoding* out) const;

  // Encodes every text on num_threads threads (Requires: at least 1); results in the order of the input, the
  // same for every number of threads. Errors: those of append, for the first text in order that has one.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, const EncodeOptions& options,
                                     int num_threads) const;

  // Tokens in the vocabulary, added ones included: Hugging Face's len(tokenizer).
  int64_t vocab_size() const;
  // The largest id; a model's embedding needs more rows than this.
  int32_t max_id() const;
  // The token's text ("##ing"), or nothing if no token has this id. The view lives as long as the tokenizer.
  std::optional<std::string_view> token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;

  const SpecialTokenIds& special_ids() const;
  // Sorted by id.
  const std::vector<AddedToken>& added_tokens() const;
  // Special tokens that one text (or pair) gains.
  int64_t num_special_tokens(bool pair) const;
  // Nothing where the folder states none (Hugging Face writes 1e30).
  std::optional<int64_t> model_max_length() const;
  TextSide padding_side() const;
  TextSide truncation_side() const;
  const std::optional<TruncationDefault>& truncation_default() const;
  bool lowercase() const;
  // Which file the vocabulary came from, "tokenizer.json" or "vocab.txt".
  const std::string& source() const;

  // Of everything that can change an id, type or offset, and of the version of the Unicode tables; equal for
  // the same tokenizer read from vocab.txt and from tokenizer.json. The key for caches of tokens.
  const Hash128& content_hash() const;

  // From a description that is already in memory (text/tokenizer_spec.h).
  explicit Tokenizer(text::TokenizerSpec spec);

 private:
  std::unique_ptr<text::TokenizerImpl> impl_;
};

}  // namespace plimsoll
