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

// The position of a token in its text: code points [begin, end). A special token that the tokenizer adds has the position {0, 0}.
struct TextSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// The truncation strategies of Hugging Face, which select which text of a pair is shortened: the longer one, the first or the
// second. The first two are equivalent for a single text.
enum class Truncation : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
// One end of a text. Truncation removes tokens at the end truncation_side. padding_side is the end at which other tokenizers add padding
// tokens; Plimsoll adds none.
enum class TextSide : uint8_t { kRight, kLeft };
enum class SpecialTokens : uint8_t { kAdd, kOmit };
enum class Offsets : uint8_t { kRecord, kSkip };

struct EncodeOptions {
  // The maximum number of tokens, including special tokens; no value means no limit.
  std::optional<int64_t> max_length = std::nullopt;
  Truncation truncation = Truncation::kLongestFirst;
  // The end of the text at which tokens are removed. If it is absent, the setting truncation_side of the tokenizer's folder is used.
  std::optional<TextSide> truncation_side = std::nullopt;
  SpecialTokens special_tokens = SpecialTokens::kAdd;
  Offsets offsets = Offsets::kRecord;
};

// The tokens of one or several encoded texts or pairs of texts, one after the other. All vectors have the same length, with two exceptions:
// `offsets` is empty with Offsets::kSkip, and `word_starts` is filled only by append_words().
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  // the position of each token in the text that contains it, or in its word for append_words()
  std::vector<TextSpan> offsets;
  // For the first token of each word, the index of the word; kNoWord for all other tokens, including special ones.
  std::vector<int32_t> word_starts;
  int64_t num_cut = 0;  // number of tokens that truncation removed

  static constexpr int32_t kNoWord = -1;

  void clear();  // removes all tokens, but keeps the allocated memory
};

// The result of one call of append(): how many tokens it added, and how many truncation removed.
struct AppendedTokens {
  int64_t num_tokens = 0;
  int64_t num_cut = 0;
};

// Temporary memory for encoding. Each thread needs its own. It grows to the size of the largest text; after that, append()
// allocates no temporary memory.
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

// The ids of tokens with a special role, such as padding. A role is absent if the files of the folder do not assign it to a
// token, or if the vocabulary does not contain that token.
struct SpecialTokenIds {
  std::optional<int32_t> pad, unk, cls, sep, mask, bos, eos;
};

// An added token: it is matched in the text before the model splits the rest.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // the token matches only if no word character is directly before or after it
  bool lstrip = false;       // the token also covers white space directly before it
  bool rstrip = false;       // the token also covers white space directly after it
  bool normalized = false;   // the token is matched in the normalized text instead of the raw text
  bool special = false;
};

// The truncation settings in the files of the tokenizer's folder. Encoding does not apply them; callers may use them as default options.
struct TruncationDefault {
  int64_t max_length = 0;
  Truncation strategy = Truncation::kLongestFirst;
  TextSide side = TextSide::kRight;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
  // True to remove spaces before punctuation. If this option is absent, the setting of tokenizer_config.json is used, which BPE
  // models ignore as in transformers 5.
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

  // Encodes one text or pair into new vectors. Errors: those of append().
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;

  // Appends the tokens of one text or pair to `out`, and adds the number of removed tokens to num_cut. This is the hot path: it
  // allocates memory only if `scratch` or the vectors of `out` have to grow. After an error `out` is unchanged. Errors: kUsage if
  // max_length is smaller than the number of special tokens, or if kOnlyFirst or kOnlySecond cannot shorten its text enough;
  // kBadData for a text of more than 715 million bytes.
  AppendedTokens append(const TextPair& text, const EncodeOptions& options, TokenizerScratch& scratch,
                        Encoding* out) const;

  // Appends the tokens of a text that is already split into words, as for the classification of tokens, and
  // fills word_starts. The result equals that of a fast tokenizer of Hugging Face with is_split_into_words:
  // every word is encoded by itself, and a word may give several tokens or none. If truncation on the left
  // removes the first token of a word, the first one that remains counts as its start, as in run_ner.py.
  // Requires: `out` contains no tokens that append() added. Errors: as append().
  AppendedTokens append_words(std::span<const std::string_view> words, const EncodeOptions& options,
                              TokenizerScratch& scratch, Encoding* out) const;
  Encoding encode_words(std::span<const std::string_view> words, const EncodeOptions& options = {}) const;

  // Encodes all texts on num_threads threads. Requires: num_threads >= 1. The results are in the order of the input and do not
  // depend on the number of threads. Errors: those of append(). If several texts fail, the error of the first one in the input is
  // thrown.
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, const EncodeOptions& options,
                                     int num_threads) const;

  // Returns the text of the ids, which is valid UTF-8. Ids without a token are left out, as in Hugging Face.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Returns the number of tokens in the vocabulary including added ones: Hugging Face's len(tokenizer).
  int64_t vocab_size() const;
  // Returns the largest id of a token. The embedding table of a model must have more rows than this number.
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
  // Returns the maximum length that the files of the folder state, or nothing if there is none (Hugging Face then writes 1e30).
  std::optional<int64_t> model_max_length() const;
  TextSide padding_side() const;
  TextSide truncation_side() const;
  const std::optional<TruncationDefault>& truncation_default() const;
  bool lowercase() const;
  // Returns the name of the file that contained the vocabulary: "tokenizer.json", "vocab.json" or "vocab.txt".
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

// Decodes ids that arrive one by one, as in text generation. Incomplete characters are held back until further ids complete them.
// The concatenation of all results is the text that Tokenizer::decode() returns for all ids without clean_up_spaces, provided
// that this text has no invalid bytes. Not thread-safe; the tokenizer must outlive it. Cost per id: decoding the last few ids.
class TokenStream {
 public:
  // Spaces are not cleaned up, because this would change text that was already returned. `context` contains the ids before the
  // first one, such as those of a prompt. Their text is not returned, but the text of the first id can depend on them, for
  // example if it is "##ing" or begins with a space.
  explicit TokenStream(const Tokenizer& tokenizer,
                       const DecodeOptions& options = {.skip_special_tokens = true},
                       std::span<const int32_t> context = {});

  // Adds an id, and returns the text that is complete now, which may be empty.
  std::string push(int32_t id);
  // Returns the remaining text, in which incomplete characters are replaced by U+FFFD.
  std::string finish();

 private:
  std::string decode() const;

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  std::vector<int32_t> ids_;  // the last ids, on which the text of later ids may depend
  size_t num_returned_ = 0;   // number of ids at the beginning of ids_ whose text was returned
  std::string returned_;
};

}  // namespace plimsoll
