// Tests which of llama.cpp's pre-tokenizer names an exported file contains for the pre-tokenizer of a tokenizer.json, and the exported
// vocabularies of models with byte fallback. scripts/check_gguf.sh compares the resulting tokens in llama.cpp.
#include "io/gguf/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "plimsoll/error.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

using TokenizerJson = nlohmann::json;
using Metadata = std::map<std::string, GgufValue>;

constexpr const char* kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TokenizerJson byte_level_step(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
TokenizerJson split_by(const char* regex) {
  const TokenizerJson split{
      {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_step(false)}}};
}
TokenizerJson special_token(int id, const char* content) {
  return {{"id", id},
          {"content", content},
          {"special", true},
          {"normalized", false},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false}};
}
// Returns a post-processor that puts the token `first` before each text, and `last` after it if there is one.
TokenizerJson with_ends(int first_id, const char* first, int last_id = -1, const char* last = nullptr) {
  TokenizerJson single{{{"SpecialToken", {{"id", first}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  TokenizerJson tokens{{first, {{"id", first}, {"ids", {first_id}}, {"tokens", {first}}}}};
  if (last != nullptr) {
    single.push_back({{"SpecialToken", {{"id", last}, {"type_id", 0}}}});
    tokens[last] = {{"id", last}, {"ids", {last_id}}, {"tokens", {last}}};
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", tokens}};
}

struct VocabularyFolder {
  TokenizerJson tokenizer;
  TokenizerJson settings{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<e>"}};

  std::pair<Metadata, std::vector<std::string>> read(const GgufTokenDefaults& defaults) const {
    const test::ScratchFolder scratch;
    scratch.write("tokenizer.json", tokenizer.dump());
    scratch.write("tokenizer_config.json", settings.dump());
    GgufMetadata metadata;
    const auto notes = add_gguf_vocabulary(metadata, scratch.path(), "llama", defaults);
    Metadata result;
    for (const GgufEntry& entry : metadata.entries())
      result[entry.key.substr(entry.key.find('.') + 1)] = entry.value;
    return {result, notes};
  }
  std::string refusal(const GgufTokenDefaults& defaults) const {
    try {
      read(defaults);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }
};

VocabularyFolder byte_level_folder(const TokenizerJson& pre_tokenizer) {
  VocabularyFolder folder;
  folder.tokenizer = {
      {"version", "1.0"},
      {"added_tokens", {special_token(3, "<e>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
  return folder;
}

TEST(GgufVocabulary, ByteLevelStepsHaveNames) {
  const TokenizerJson digits{{"type", "Digits"}, {"individual_digits", true}};
  const TokenizerJson smollm{{"type", "Sequence"}, {"pretokenizers", {digits, byte_level_step(true)}}};
  const std::pair<TokenizerJson, std::string> cases[] = {{byte_level_step(true), "gpt-2"},
                                                         {smollm, "smollm"},
                                                         {split_by(kOneDigit), "qwen2"},
                                                         {split_by(kThreeDigits), "dbrx"}};
  for (const auto& [steps, name] : cases) {
    const auto [metadata, notes] = byte_level_folder(steps).read({.vocab_size = 4});
    EXPECT_EQ(metadata.at("ggml.pre"), GgufValue(name));
    EXPECT_EQ(metadata.at("ggml.model"), GgufValue("gpt2"));
    EXPECT_TRUE(notes.empty());
  }
  VocabularyFolder llama = byte_level_folder(split_by(kThreeDigits));
  llama.tokenizer["model"]["ignore_merges"] = true;
  EXPECT_EQ(llama.read({.vocab_size = 4}).first.at("ggml.pre"), GgufValue("llama-bpe"));
  VocabularyFolder other = byte_level_folder(byte_level_step(true));
  other.tokenizer["model"]["ignore_merges"] = true;
  EXPECT_NE(other.refusal({.vocab_size = 4}).find("ignore_merges is true"), std::string::npos);
  VocabularyFolder pairs_of_digits = byte_level_folder(
      {{"type", "Sequence"},
       {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", false}}, byte_level_step(true)}}});
  EXPECT_NE(pairs_of_digits.refusal({.vocab_size = 4}).find("its pre_tokenizer is none of those of"),
            std::string::npos);
}

TEST(GgufVocabulary, CompositionAndMatchingAreNoted) {
  VocabularyFolder folder = byte_level_folder(split_by(kOneDigit));
  folder.tokenizer["normalizer"] = {{"type", "NFC"}};
  folder.tokenizer["added_tokens"][0]["lstrip"] = true;
  const auto notes = folder.read({.vocab_size = 4}).second;
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_TRUE(notes[0].starts_with("The tokenizer composes accents (NFC)"));
  EXPECT_TRUE(notes[1].starts_with("The token '<e>' is matched with its surroundings"));
}

TEST(GgufVocabulary, EndsOfTextsComeFromThePostProcessor) {
  VocabularyFolder folder = byte_level_folder(byte_level_step(true));
  folder.tokenizer["added_tokens"].push_back(special_token(4, "<b>"));
  folder.tokenizer["post_processor"] = with_ends(4, "<b>", 3, "<e>");
  folder.settings["chat_template"] = "{{ messages }}";
  const Metadata both = folder.read({.vocab_size = 5, .bos_id = 0, .pad_id = 2}).first;
  EXPECT_EQ(both.at("ggml.bos_token_id"), GgufValue(uint32_t{4}));
  EXPECT_EQ(both.at("ggml.eos_token_id"), GgufValue(uint32_t{3}));
  EXPECT_EQ(both.at("ggml.padding_token_id"), GgufValue(uint32_t{2}));
  EXPECT_EQ(both.at("ggml.add_bos_token"), GgufValue(true));
  EXPECT_EQ(both.at("ggml.add_eos_token"), GgufValue(true));
  EXPECT_EQ(both.at("chat_template"), GgufValue("{{ messages }}"));
  folder.tokenizer["post_processor"] = with_ends(4, "<b>", 4, "<b>");
  EXPECT_NE(folder.refusal({.vocab_size = 5}).find("token that it adds after each text is not its eos_token"),
            std::string::npos);
  folder.settings.erase("eos_token");
  folder.tokenizer["post_processor"] = nullptr;
  EXPECT_NE(folder.refusal({.vocab_size = 5}).find("no file names the token that ends a text"),
            std::string::npos);
  EXPECT_EQ(folder.read({.vocab_size = 5, .eos_id = 3}).first.at("ggml.add_bos_token"), GgufValue(false));
}

// Returns a folder with a SentencePiece vocabulary: ids 0 to 2 are special tokens, then the 256 bytes and the
// pieces follow.
VocabularyFolder sentence_piece_folder(bool prepends) {
  TokenizerJson vocab{{"<unk>", 0}, {"<b>", 1}, {"<e>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    vocab[std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">"] = 3 + byte;
  }
  int id = 259;
  for (const char* piece : {"ab", "▁ab", "a", "b", "▁", "▁a"}) vocab[piece] = id++;
  const TokenizerJson replace{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const TokenizerJson prepend{{"type", "Prepend"}, {"prepend", "▁"}};
  const TokenizerJson metaspace{
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}, {"split", false}};
  VocabularyFolder folder;
  folder.tokenizer = {
      {"version", "1.0"},
      {"added_tokens", {special_token(0, "<unk>"), special_token(1, "<b>"), special_token(2, "<e>")}},
      {"normalizer",
       prepends ? TokenizerJson{{"type", "Sequence"}, {"normalizers", {prepend, replace}}} : TokenizerJson()},
      {"pre_tokenizer", prepends ? TokenizerJson() : metaspace},
      {"post_processor", with_ends(1, "<b>")},
      {"decoder", nullptr},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", {"a b", "▁a b", "▁ ab", "▁ a"}}}}};
  folder.settings["unk_token"] = "<unk>";
  return folder;
}

TEST(GgufVocabulary, ByteFallbackIsASentencePieceModel) {
  for (const bool prepends : {true, false}) {
    const auto [metadata, notes] = sentence_piece_folder(prepends).read({.vocab_size = 266});
    EXPECT_TRUE(notes.empty());
    EXPECT_EQ(metadata.at("ggml.model"), GgufValue("llama"));
    EXPECT_EQ(metadata.at("ggml.pre"), GgufValue("default"));
    EXPECT_EQ(metadata.at("ggml.add_space_prefix"), GgufValue(prepends));
    EXPECT_EQ(metadata.at("ggml.add_bos_token"), GgufValue(true));
    EXPECT_EQ(metadata.at("ggml.unknown_token_id"), GgufValue(uint32_t{0}));
    const auto& types = std::get<std::vector<int32_t>>(metadata.at("ggml.token_type"));
    EXPECT_EQ(
        (std::vector<int32_t>{types[0], types[1], types[2], types[3], types[258], types[259], types[265]}),
        (std::vector<int32_t>{2, 3, 3, 6, 6, 1, 5}));
    const auto& scores = std::get<std::vector<float>>(metadata.at("ggml.scores"));
    EXPECT_EQ((std::vector<float>(scores.begin() + 259, scores.begin() + 265)),
              (std::vector<float>{0, -1, -4, -4, -4, -2}));
    EXPECT_FALSE(metadata.contains("ggml.merges"));
  }
}

TEST(GgufVocabulary, ByteFallbackWithOtherMergesOrStepsIsRefused) {
  VocabularyFolder missing = sentence_piece_folder(true);
  missing.tokenizer["model"]["merges"] = {"a b", "▁a b", "▁ a"};
  EXPECT_NE(
      missing.refusal({.vocab_size = 266}).find("'▁' and 'ab' make the token '▁ab', but no merge joins them"),
      std::string::npos);
  VocabularyFolder no_byte = sentence_piece_folder(true);
  no_byte.tokenizer["model"]["vocab"].erase("<0x0A>");
  EXPECT_NE(no_byte.refusal({.vocab_size = 266}).find("byte_fallback without the token '<0x0A>'"),
            std::string::npos);
  VocabularyFolder lower = sentence_piece_folder(true);
  lower.tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(lower.refusal({.vocab_size = 266}).find("are not those of Llama 2"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::testing
