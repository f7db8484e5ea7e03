// Tests which tokenizer files are saved with a model, and their contents.
#include "run/tokenizer_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

constexpr const char* kJson =
    R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "A": 1}},
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": null, "lowercase": false}, "pre_tokenizer": {"type": "BertPreTokenizer"}})";

TokenizerSource load(const test::ScratchFolder& folder) {
  return {.tokenizer = Tokenizer::load(folder.path()), .folder = folder.path()};
}

TEST(TokenizerSource, ASavedTokenizerStatesItsClass) {
  const test::ScratchFolder folder;
  folder.write("tokenizer.json", kJson);
  std::vector<CopiedFile> copied = copied_tokenizer_files(posix_file_system(), load(folder));
  ASSERT_EQ(copied.size(), 2u);
  EXPECT_TRUE(copied[0].source_path.ends_with("/tokenizer.json"));
  EXPECT_FALSE(copied[0].text);
  EXPECT_TRUE(copied[1].source_path.ends_with("/tokenizer_config.json"));
  EXPECT_EQ(copied[1].text, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
  // All other keys of tokenizer_config.json must stay in their order.
  folder.write("tokenizer_config.json", R"({"pad_token": "[UNK]", "do_lower_case": true})");
  folder.write("config.json", R"({"model_type": "bert"})");
  copied = copied_tokenizer_files(posix_file_system(), load(folder));
  ASSERT_EQ(copied.size(), 2u);
  EXPECT_EQ(copied[1].text,
            "{\n  \"pad_token\": \"[UNK]\",\n  \"do_lower_case\": true,\n  \"tokenizer_class\": "
            "\"BertTokenizer\"\n}\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "ElectraTokenizer"})");
  for (const CopiedFile& file : copied_tokenizer_files(posix_file_system(), load(folder))) {
    EXPECT_FALSE(file.text) << file.source_path;
  }
}

// If --chat_template names a template for training, the saved model must have this template, even if the tokenizer's files contain
// another one.
TEST(TokenizerSource, ASavedTokenizerNamesTheChatTemplateOfItsTraining) {
  const test::ScratchFolder folder;
  folder.write("tokenizer.json", kJson);
  folder.write("chat_template.jinja", "{{ messages }}");
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "A", "chat_template": "{{ 1 }}"})");
  const TokenizerSource source = load(folder);
  for (const CopiedFile& file : copied_tokenizer_files(posix_file_system(), source)) EXPECT_FALSE(file.text);
  EXPECT_THROW(find_chat_template({}, source), Error) << "neither of the files has a known template";
  for (const CopiedFile& file : copied_tokenizer_files(posix_file_system(), source, "zephyr")) {
    if (file.text) folder.write("tokenizer_config.json", *file.text);
  }
  const TokenizerSource saved = load(folder);
  EXPECT_EQ(find_chat_template({}, saved).name(), "zephyr");
  Arguments other;
  other.chat_template = "chatml";
  EXPECT_EQ(find_chat_template(other, saved).name(), "chatml");
  // If the saved model is trained further, the new model must be saved with the same chat template, or with the template that the new run
  // names.
  for (const CopiedFile& file : copied_tokenizer_files(posix_file_system(), saved)) EXPECT_FALSE(file.text);
  for (const CopiedFile& file : copied_tokenizer_files(posix_file_system(), saved, "chatml")) {
    if (file.text) folder.write("tokenizer_config.json", *file.text);
  }
  EXPECT_EQ(find_chat_template({}, load(folder)).name(), "chatml");
  folder.write("tokenizer_config.json", R"({"plimsoll_chat_template": "of a later version"})");
  try {
    find_chat_template({}, saved);
    ADD_FAILURE() << "an unknown name is accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("knows no chat template of this name; known are chatml"),
              std::string::npos)
        << error.what();
  }
}

TEST(TokenizerSource, AVocabularyAloneIsBertsEverywhere) {
  const test::ScratchFolder folder;
  folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
  EXPECT_EQ(copied_tokenizer_files(posix_file_system(), load(folder)).size(), 1u);
  folder.write("config.json", R"({"tokenizer_class": "DistilBertTokenizer"})");
  const std::vector<CopiedFile> copied = copied_tokenizer_files(posix_file_system(), load(folder));
  ASSERT_EQ(copied.size(), 2u);
  EXPECT_EQ(copied[1].text, "{\n  \"tokenizer_class\": \"DistilBertTokenizer\"\n}\n");
}

// The table of arguments and the table of templates must list the same names.
TEST(TokenizerSource, TheSettingNamesEveryChatTemplate) {
  const auto& table = argument_table();
  const auto setting = std::ranges::find(table, "chat_template", &ArgumentInfo::name);
  ASSERT_NE(setting, table.end());
  std::string choices;
  for (const char letter : setting->range)
    choices += letter == '|' ? std::string(", ") : std::string(1, letter);
  EXPECT_EQ(choices, chat_template_names());
}

}  // namespace
}  // namespace plimsoll
