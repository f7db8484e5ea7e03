// The description of a tokenizer as read from a folder, before anything is built from it, and the readers of
// each file.
//
// The readers take bytes and a name for messages, so that tests and the fuzzer need no disk. All of them
// throw Error{kBadData} with that name, the problem and the remedy. Thread-safe: free functions on values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/text/byte_level.h"
#include "io/text/tokenizer.h"

namespace plimsoll::text {

// The fields of BertNormalizer.
struct NormalizerSpec {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  // no value: the same as lowercase
  bool lowercase = true;

  bool strips_accents() const { return strip_accents.value_or(lowercase); }
};

// Tokens and their ids, sorted by id, then token. Several tokens may share an id, and in a Unigram model several ids a
// token; in the others the tokens are distinct.
using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

struct WordPieceSpec {
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_chars_per_word = 100;
};

// Tokens `left` and `right` are joined to `result`.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

struct BpeSpec {
  std::vector<BpeMerge> merges;          // the rank of a merge is its index
  std::optional<std::string> unk_token;  // no value: unknown characters are dropped
  std::string continuing_prefix;
  std::string end_suffix;
  bool fuse_unk = false;       // adjacent unknown characters are one token
  bool byte_fallback = false;  // unknown characters become the tokens <0x00> to <0xFF> if these exist
  bool ignore_merges = false;  // a word that is a token stays whole
};

struct UnigramSpec {
  std::vector<double> scores;  // the score of each token, by id
  std::optional<int32_t> unk_id;
  bool byte_fallback = false;
};

// The WordLevel model: each word is one token of the vocabulary, or the unknown token.
struct WordLevelSpec {
  std::string unk_token;
};

struct ModelSpec {
  Vocabulary vocab;
  std::variant<WordPieceSpec, BpeSpec, UnigramSpec, WordLevelSpec> kind;
};

// One piece of the template that combines texts and special tokens into a sequence.
struct TemplatePiece {
  enum class Kind : uint8_t { kFirst, kSecond, kSpecial } kind = Kind::kFirst;
  int32_t type_id = 0;
  std::vector<int32_t> special_ids;  // used only by kSpecial

  friend bool operator==(const TemplatePiece&, const TemplatePiece&) = default;
};

// The class in transformers that changes nothing in tokenizer.json.
inline constexpr std::string_view kGenericClass = "PreTrainedTokenizerFast";

class Pipeline;
class Decoder;

// ByteLevel and RobertaProcessing remove white space from the offsets of a token.
struct OffsetTrimming {
  bool keeps_added_space = false;  // the space that add_prefix_space inserted is not removed
};

struct TokenizerSpec {
  std::string source;  // name of the file: "tokenizer.json", "vocab.json" or "vocab.txt"
  std::string where;   // the path, for messages
  // BERT's normalizer, which BERT's pre-tokenizer follows; not used if there is a pipeline without it.
  NormalizerSpec normalizer;
  // The steps from a text to words if they differ from those of BERT, which `normalizer` describes; otherwise null.
  std::shared_ptr<Pipeline> pipeline;
  bool pipeline_has_bert_normalizer = false;  // its only normalizer is BertNormalizer
  // The steps of `pipeline` in the faster form for byte-level words, if they have that form.
  std::optional<ByteLevelSteps> byte_level;
  std::optional<OffsetTrimming> offset_trimming;
  ModelSpec model;
  std::shared_ptr<Decoder> decoder;  // null: tokens are joined with spaces
  bool clean_up_spaces = false;      // clean_up_tokenization_spaces of transformers
  // Tokens in the order in which Hugging Face adds them. resolve_added_tokens determines their ids.
  std::vector<AddedToken> added_tokens;
  std::vector<TemplatePiece> single = {{}};
  std::vector<TemplatePiece> pair = {{}, {TemplatePiece::Kind::kSecond, 1, {}}};
  std::optional<TruncationDefault> truncation_default;
  // Maps a role ("cls_token") to its token.
  std::map<std::string, std::string> special_tokens;
  std::optional<int64_t> model_max_length;
  TextSide padding_side = TextSide::kRight;
  TextSide truncation_side = TextSide::kRight;
  std::string transformers_class = std::string(kGenericClass);
  // split_special_tokens of transformers: special tokens in the text are encoded as plain text.
  bool split_special_tokens = false;
};

// The file names in a folder, and the maximum size of each file.
inline constexpr std::string_view kTokenizerJson = "tokenizer.json";
inline constexpr std::string_view kVocabTxt = "vocab.txt";
inline constexpr std::string_view kVocabJson = "vocab.json";
inline constexpr std::string_view kMergesTxt = "merges.txt";
inline constexpr std::string_view kTokenizerConfigJson = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensMapJson = "special_tokens_map.json";
inline constexpr std::string_view kAddedTokensJson = "added_tokens.json";
inline constexpr std::string_view kModelConfigJson = "config.json";
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{1} << 29;

// The contents of the files in a folder; no value if a file is absent.
struct TokenizerFiles {
  std::string folder;  // name of the folder in messages
  std::optional<std::string> tokenizer_json, vocab_txt, vocab_json, merges_txt;
  std::optional<std::string> tokenizer_config, special_tokens_map, added_tokens;
  std::optional<std::string> model_config;  // config.json
  // The type of the model with which the tokenizer was trained. It is used if config.json is absent.
  std::string model_type;
};

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, std::string_view model_type = {});

// Parses and checks all files of a folder.
TokenizerSpec parse_tokenizer_files(const TokenizerFiles& files);

// Parses tokenizer.json alone, as Hugging Face's Tokenizer.from_file does.
TokenizerSpec parse_tokenizer_json(const std::string& json, const std::string& where);

// Parses a tokenizer.json that was read as JSON. If `model` is present, it replaces the model in the document.
TokenizerSpec parse_tokenizer_document(const Json& document, const std::string& where,
                                       std::optional<ModelSpec> model = std::nullopt);

// Reads the field "model" of tokenizer.json.
ModelSpec read_model(const JsonFields& root);

// Parses the two files of a BPE model: a JSON object of tokens and ids, and a line with two tokens per merge, of
// which the first may be "#version: 0.2".
ModelSpec parse_vocab_and_merges(const std::string& vocab_json, const std::string& vocab_where,
                                 std::string_view merges_txt, const std::string& merges_where);

// Parses a file with one token per line; the id of a token is its line number, starting at 0. White space at
// the end of a line is not part of the token, and a token that occurs twice has the later id, both as in
// Hugging Face's reader.
Vocabulary parse_vocab_txt(std::string_view text, const std::string& where);

// Assigns an id to every added token as Hugging Face does: the id in the vocabulary, or the next free number.
// Drops duplicates. Errors: a token that states another id (`stated` has one entry per token, -1 for none).
void resolve_added_tokens(const std::vector<int32_t>& stated, TokenizerSpec* spec);

}  // namespace plimsoll::text
