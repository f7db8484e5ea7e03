// The tokenizers of transformers: convert text to token ids, token types and offsets, and ids to text, equal to
// Hugging Face's `tokenizers` for every input except as listed below.
//
// It implements the complete path of a tokenizer.json: added tokens in two passes, normalizers, pre-tokenizers, the
// models WordPiece, BPE, Unigram and WordLevel, truncation, post-processors and decoders. It has no padding: Plimsoll
// concatenates sequences, and the attention mask of every token is 1. A BPE model with dropout is refused.
//
// Invalid UTF-8 has a defined result: each maximal invalid part counts as one U+FFFD, exactly as in Python's
// bytes.decode("utf-8", errors="replace"), and as one code point in offsets.
//
// Intended differences from Hugging Face: a max_length below the number of special tokens is an error (there
// the count wraps around and nothing is cut). A folder that gives an added token another id than Hugging Face
// would use is an error (there it causes a warning, and ids with which the model was not trained). If
// cls_token or sep_token of another file contradicts the template of tokenizer.json, the template is used
// (transformers 5 creates a new template from the roles).
//
// Ownership and threads: a Tokenizer is immutable after loading. Any number of threads may encode with it at
// once, each with its own TokenizerScratch. Encodings own their vectors.
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

// The source of a token: code points [begin, end) of its text. Special tokens that the tokenizer adds have
// {0, 0}.
struct TextSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// Hugging Face's strategies, which select the text of a pair that is truncated. The first two are equivalent for a
// single text.
enum class Truncation : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
// The side on which tokens are cut (truncation_side) or padding would be added (padding_side).
enum class TextSide : uint8_t { kRight, kLeft };
enum class SpecialTokens : uint8_t { kAdd, kOmit };
enum class Offsets : uint8_t { kRecord, kSkip };

struct EncodeOptions {
  // The maximum number of tokens, including special tokens; no value means no limit.
  std::optional<int64_t> max_length = std::nullopt;
  Truncation truncation = Truncation::kLongestFirst;
  // No value means the truncation_side of the folder.
  std::optional<TextSide> truncation_side = std::nullopt;
  SpecialTokens special_tokens = SpecialTokens::kAdd;
  Offsets offsets = Offsets::kRecord;
};

// The tokens of one text or pair, or of several appended ones. The vectors have equal lengths, but offsets
// stays empty with Offsets::kSkip, and word_starts is only filled by append_words.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<TextSpan> offsets;  // relative to the token's own text of the pair, or to its own word
  // The index of the word whose first token this is; kNoWord for special tokens and for further tokens.
  std::vector<int32_t> word_starts;
  int64_t num_cut = 0;  // number of tokens that truncation removed

  static constexpr int32_t kNoWord = -1;

  void clear();  // keeps the allocated memory
};

// The number of tokens that one call of append added and cut.
struct AppendedTokens {
  int64_t num_tokens = 0;
  int64_t num_cut = 0;
};

// Buffers of one thread. They grow to the size of the largest text; after that, append allocates no scratch
// memory.
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

// A text, or a pair of texts if `second` is present.
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second;
};

// The tokens with a role. A role is absent if the folder does not name its token or the vocabulary does not
// contain it.
struct SpecialTokenIds {
  std::optional<int32_t> pad, unk, cls, sep, mask, bos, eos;
};

// A token that is matched in the text before the model processes it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only between characters that are not word characters
  bool lstrip = false;       // includes white space on its left
  bool rstrip = false;
  bool normalized = false;  // matched in the normalized text (second pass) instead of the raw text
  bool special = false;
};

// The truncation settings of the folder. They are defaults for callers; encode does not apply them.
struct TruncationDefault {
  int64_t max_length = 0;
  Truncation strategy = Truncation::kLongestFirst;
  TextSide side = TextSide::kRight;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
  // Removes spaces before punctuation. No value means the setting of tokenizer_config.json, which does not count for
  // BPE models, as in transformers 5.
  std::optional<bool> clean_up_spaces = std::nullopt;
};

class Tokenizer {
 public:
  // Reads a Hugging Face folder: tokenizer.json, or if it does not exist vocab.json with merges.txt, or vocab.txt,
  // together with tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json if present. As in
  // transformers, the class of the tokenizer determines what the other files change in tokenizer.json
  // (tokenizer_class.h). `model_type` is that of the model, for a folder that belongs to it but has no
  // config.json. Errors: kBadData with the file (and the line of vocab.txt), the problem and the remedy. Cost:
  // about 65 ms for 30,522 tokens, mostly for reading JSON.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& folder,
                                         std::string_view model_type = {});
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Encodes one text or pair into new vectors. Errors: as append.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  // Appends the tokens of one text or pair to `out` (num_cut is added up). This is the hot path: it allocates
  // only if scratch or the vectors of `out` have to grow. After an error `out` is unchanged. Errors: kUsage
  // if max_length leaves no room for the special tokens, or if kOnlyFirst or kOnlySecond cannot cut enough;
  // kBadData for a text of more than 715 million bytes.
  AppendedTokens append(const TextPair& text, const EncodeOptions& options, TokenizerScratch& scratch,
                        Encoding* out) const;

  // Appends the tokens of a text that is already split into words, as for the classification of tokens, and
  // fills word_starts. The result equals that of a fast tokenizer of Hugging Face with is_split_into_words:
  // every word is encoded by itself, and a word may give several tokens or none. If truncation on the left
  // removes the first token of a word, the first one that remains counts as its start, as in run_ner.py. Does
  // not mix with append in one Encoding. Errors: as append.
  AppendedTokens append_words(std::span<const std::string_view> words, const EncodeOptions& options,
                              TokenizerScratch& scratch, Encoding* out) const;
  Encoding encode_words(std::span<const std::string_view> words, const EncodeOptions& options = {}) const;

  // Encodes all texts on num_threads threads. Requires: num_threads >= 1. The results are in the order of the
  // input and do not depend on the number of threads. Errors: as append; the error of the first text in order
  // that has one.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, const EncodeOptions& options,
                                     int num_threads) const;

  // Returns the text of the ids, which is valid UTF-8. Ids without a token are left out, as in Hugging Face.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Returns the number of tokens in the vocabulary including added ones: Hugging Face's len(tokenizer).
  int64_t vocab_size() const;
  // Returns the largest id. The embedding of a model needs more rows than this.
  int32_t max_id() const;
  // Returns the text of the token ("##ing"), or nothing if no token has this id. The view is valid during the
  // lifetime of the tokenizer.
  std::optional<std::string_view> token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;

  const SpecialTokenIds& special_ids() const;
  // Returns the added tokens sorted by id.
  const std::vector<AddedToken>& added_tokens() const;
  // Returns the number of special tokens that are added to one text (or pair).
  int64_t num_special_tokens(bool pair) const;
  // Returns the largest token type that a text (or pair) can have.
  int32_t max_type_id(bool pair) const;
  // Returns the maximum length, or nothing if the folder states none (Hugging Face then writes 1e30).
  std::optional<int64_t> model_max_length() const;
  TextSide padding_side() const;
  TextSide truncation_side() const;
  const std::optional<TruncationDefault>& truncation_default() const;
  bool lowercase() const;
  // Returns the file of the vocabulary, "tokenizer.json", "vocab.json" or "vocab.txt".
  const std::string& source() const;

  // Returns the class of this tokenizer in transformers, which is written into a saved tokenizer_config.json, so that
  // the saved folder gives the same tokenizer whatever other files it contains.
  const std::string& transformers_class() const;

  // Returns a hash of everything that can change an id, type or offset, including the version of the Unicode
  // tables. It is equal for the same tokenizer read from vocab.txt and from tokenizer.json, and is the key
  // for caches of tokens.
  const Hash128& content_hash() const;

  // Creates a tokenizer from a description in memory (text/tokenizer_spec.h).
  explicit Tokenizer(text::TokenizerSpec spec);

 private:
  std::unique_ptr<text::TokenizerImpl> impl_;
};

// Decodes ids that arrive one by one, as in generation. It never returns a part of a character: text is held back until it
// is complete. The concatenation of all results is the text that Tokenizer::decode returns for all ids without
// clean_up_spaces, if that text has no invalid bytes. Not thread-safe; the tokenizer must outlive it. Cost: that of
// decoding the last few ids.
class TokenStream {
 public:
  // Spaces are not cleaned up, because that changes text before them. `context` has ids that come before the first one, such as those of a
  // prompt: their text is not returned, but the text of the first id may depend on it, as "##ing" and the space before a word do.
  explicit TokenStream(const Tokenizer& tokenizer,
                       const DecodeOptions& options = {.skip_special_tokens = true},
                       std::span<const int32_t> context = {});

  // Returns the text that the id completes, which may be empty.
  std::string push(int32_t id);
  // Returns the text that is still held back, with U+FFFD for incomplete characters.
  std::string finish();

 private:
  std::string decode() const;

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  std::vector<int32_t> ids_;  // ids whose text may still be needed
  size_t num_returned_ = 0;   // number of first ids in ids_ whose text, `returned_`, was returned
  std::string returned_;
};

}  // namespace plimsoll
