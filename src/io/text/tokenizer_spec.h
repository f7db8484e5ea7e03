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

// The settings of a normalizer of type BertNormalizer, with the names that they have in tokenizer.json.
struct NormalizerSpec {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  // if absent, accents are stripped exactly if the text is lower-cased
  bool lowercase = true;

  bool strips_accents() const { return strip_accents.value_or(lowercase); }
};

// Tokens and their ids, sorted by id and then by token. An id can occur with several tokens. In a Unigram model a token can occur
// with several ids; in all other models the tokens are distinct.
using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

struct WordPieceSpec {
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_chars_per_word = 100;
};

// A merge: the adjacent tokens `left` and `right` become the token `result`.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

struct BpeSpec {
  std::vector<BpeMerge> merges;  // in the order of their ranks: the merge with index i has rank i
  std::optional<std::string>
      unk_token;  // the unknown token; if absent, characters without a token are dropped
  std::string continuing_prefix;
  std::string end_suffix;
  // if true, adjacent unknown characters become a single unknown token
  bool fuse_unk = false;
  // if true, unknown characters become the tokens <0x00> to <0xFF> if these exist
  bool byte_fallback = false;
  // if true, a word that is a token of the vocabulary is not built by merges
  bool ignore_merges = false;
};

struct UnigramSpec {
  std::vector<double> scores;  // the score of each token (larger is more likely), by token id
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

// An element of the template by which a post-processor builds a sequence: the first text, the second text of a pair, or special tokens.
struct TemplatePiece {
  enum class Kind : uint8_t { kFirst, kSecond, kSpecial } kind = Kind::kFirst;
  int32_t type_id = 0;
  std::vector<int32_t> special_ids;  // ids of the special tokens to add; empty unless the kind is kSpecial

  friend bool operator==(const TemplatePiece&, const TemplatePiece&) = default;
};

// The name of the tokenizer class of transformers that uses tokenizer.json unchanged.
inline constexpr std::string_view kGenericClass = "PreTrainedTokenizerFast";

class Pipeline;
class Decoder;

// Settings of the post-processors ByteLevel and RobertaProcessing, which exclude white space from the offsets of tokens.
struct OffsetTrimming {
  // True if the space that add_prefix_space inserts before the text does not count as white space of the first token.
  bool keeps_added_space = false;
};

struct TokenizerSpec {
  // name of the file that contained the vocabulary: "tokenizer.json", "vocab.json" or "vocab.txt"
  std::string source;
  std::string where;  // path of the file with the vocabulary, for error messages
  // The settings of BERT's normalizer. They are not used if `pipeline` exists and contains no BertNormalizer.
  NormalizerSpec normalizer;
  // The general pipeline from a text to words. It is null if the steps are those of BERT, which have a faster implementation.
  std::shared_ptr<Pipeline> pipeline;
  bool pipeline_has_bert_normalizer = false;  // true if BertNormalizer is the only normalizer of `pipeline`
  // The settings of the faster implementation of `pipeline` for byte-level tokenizers, if it can be used.
  std::optional<ByteLevelSteps> byte_level;
  std::optional<OffsetTrimming> offset_trimming;
  ModelSpec model;
  std::shared_ptr<Decoder> decoder;  // if null, decoding joins the tokens with spaces
  bool clean_up_spaces = false;      // the setting clean_up_tokenization_spaces of transformers
  // The added tokens in the order in which Hugging Face adds them. resolve_added_tokens() assigns their ids.
  std::vector<AddedToken> added_tokens;
  std::vector<TemplatePiece> single = {{}};
  std::vector<TemplatePiece> pair = {{}, {TemplatePiece::Kind::kSecond, 1, {}}};
  std::optional<TruncationDefault> truncation_default;
  // The special tokens by role, such as "cls_token".
  std::map<std::string, std::string> special_tokens;
  std::optional<int64_t> model_max_length;
  TextSide padding_side = TextSide::kRight;
  TextSide truncation_side = TextSide::kRight;
  std::string transformers_class = std::string(kGenericClass);
  // The setting split_special_tokens of transformers: if true, special tokens in a text are encoded as plain text.
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

// The contents of the files in a tokenizer's folder; a file that does not exist has no value (std::nullopt).
struct TokenizerFiles {
  std::string folder;  // name of the folder in error messages
  std::optional<std::string> tokenizer_json, vocab_txt, vocab_json, merges_txt;
  std::optional<std::string> tokenizer_config, special_tokens_map, added_tokens;
  std::optional<std::string> model_config;  // content of config.json, the configuration of the model
  // The type of the model with which the tokenizer was trained. It is used if config.json is absent.
  std::string model_type;
};

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, std::string_view model_type = {});

// Parses and checks all files of a folder.
TokenizerSpec parse_tokenizer_files(const TokenizerFiles& files);

// Parses tokenizer.json alone, as Hugging Face's Tokenizer.from_file does.
TokenizerSpec parse_tokenizer_json(const std::string& json, const std::string& where);

// Reads a tokenizer from the JSON document of a tokenizer.json. If `model` is present, it is used instead of the model in the document.
TokenizerSpec parse_tokenizer_document(const Json& document, const std::string& where,
                                       std::optional<ModelSpec> model = std::nullopt);

// Reads the field "model" of tokenizer.json.
ModelSpec read_model(const JsonFields& root);

// Parses the two files of a BPE model. vocab.json is a JSON object of tokens and ids. Each line of merges.txt contains the two
// tokens of a merge; the first line may be "#version: 0.2".
ModelSpec parse_vocab_and_merges(const std::string& vocab_json, const std::string& vocab_where,
                                 std::string_view merges_txt, const std::string& merges_where);

// Parses vocab.txt, which contains one token per line. The id of a token is its line number, starting at 0. As in Hugging Face's
// reader, white space at the end of a line is ignored, and the last line is used if a token occurs twice.
Vocabulary parse_vocab_txt(std::string_view text, const std::string& where);

// Assigns an id to every added token as Hugging Face does: its id in the vocabulary, or the next free number. Removes duplicates. `stated`
// contains for each added token the id that the files state, or -1 if they state none. Errors: kBadData if a stated id differs from the
// assigned one.
void resolve_added_tokens(const std::vector<int32_t>& stated, TokenizerSpec* spec);

}  // namespace plimsoll::text
