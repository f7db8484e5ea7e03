// The description of a tokenizer, as read from a folder and before anything is built from it; and the readers
// of each file.
//
// Readers take bytes and the name that messages should use, so that tests and the fuzzer need no disk. All of
// them throw Error{kBadData} with that name, what is wrong and what to do next. Thread-safe: free functions
// over values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll::text {

// BertNormalizer's fields.
struct NormalizerSpec {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  // nothing: as lowercase
  bool lowercase = true;

  bool strips_accents() const { return strip_accents.value_or(lowercase); }
};

struct WordPieceSpec {
  // Distinct tokens; several may share an id. Sorted by id, then token.
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_chars_per_word = 100;
};

// One piece of the template that makes a sequence out of texts and special tokens.
struct TemplatePiece {
  enum class Kind : uint8_t { kFirst, kSecond, kSpecial } kind = Kind::kFirst;
  int32_t type_id = 0;
  std::vector<int32_t> special_ids;  // kSpecial only

  friend bool operator==(const TemplatePiece&, const TemplatePiece&) = default;
};

struct TokenizerSpec {
  std::string source;  // "tokenizer.json" or "vocab.txt"
  std::string where;   // the path, for messages
  NormalizerSpec normalizer;
  WordPieceSpec model;
  // In the order in which Hugging Face adds them. Ids are settled (resolve_added_tokens).
  std::vector<AddedToken> added_tokens;
  std::vector<TemplatePiece> single = {{}};
  std::vector<TemplatePiece> pair = {{}, {TemplatePiece::Kind::kSecond, 1, {}}};
  std::optional<TruncationDefault> truncation_default;
  // Role ("cls_token") to token.
  std::map<std::string, std::string> special_tokens;
  std::optional<int64_t> model_max_length;
  TextSide padding_side = TextSide::kRight;
  TextSide truncation_side = TextSide::kRight;
  // transformers' split_special_tokens: special tokens in the text are encoded as plain text.
  bool split_special_tokens = false;
};

// The file names of a folder and the largest size that is read of each.
inline constexpr std::string_view kTokenizerJson = "tokenizer.json";
inline constexpr std::string_view kVocabTxt = "vocab.txt";
inline constexpr std::string_view kTokenizerConfigJson = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensMapJson = "special_tokens_map.json";
inline constexpr std::string_view kAddedTokensJson = "added_tokens.json";
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{1} << 29;

// Contents of a folder's files; nothing where a file is absent.
struct TokenizerFiles {
  std::string folder;  // for messages
  std::optional<std::string> tokenizer_json, vocab_txt, tokenizer_config, special_tokens_map, added_tokens;
};

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

// Everything a folder says, checked and settled.
TokenizerSpec parse_tokenizer_files(const TokenizerFiles& files);

// tokenizer.json alone, as Hugging Face's Tokenizer.from_file reads it.
TokenizerSpec parse_tokenizer_json(const std::string& json, const std::string& where);

// One token a line, its id the number of the line from 0; white space at the end of a line is no part of the
// token, and a token that occurs twice has the later id, both as in Hugging Face's reader.
std::vector<std::pair<std::string, int32_t>> parse_vocab_txt(std::string_view text, const std::string& where);

// Gives every added token its id as Hugging Face does: the vocabulary's where it is there, else the next free
// number; drops repetitions. Errors: a token that states another id (`stated`, -1 for none, one per token).
void resolve_added_tokens(const std::vector<int32_t>& stated, TokenizerSpec* spec);

}  // namespace plimsoll::text
