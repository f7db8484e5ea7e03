#include "io/data/text_encoder.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/tokenize_split.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

class TokenizerEncoderTest : public testing::Test {
 protected:
  TokenizerEncoderTest() {
    folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\n!\n");
    folder_.write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true})");
    tokenizer_ = Tokenizer::load(folder_.path());
  }

  test::ScratchFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerEncoderTest, EncodesTextsAndPairsWithTypesAndTruncation) {
  const TokenizerEncoder encoder(*tokenizer_);
  const std::unique_ptr<TextEncoder::Session> session = encoder.new_session();
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  EXPECT_EQ(session->encode("Hello Worlds!", std::nullopt, 16, ids, types), 0);
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 4, 5, 6, 7, 3}));
  EXPECT_EQ(types, (std::vector<int32_t>(6, 0)));
  EXPECT_EQ(session->encode("hello hello hello", "world !", 6, ids, types), 2);
  EXPECT_EQ(std::vector<int32_t>(ids.begin() + 6, ids.end()), (std::vector<int32_t>{2, 4, 4, 3, 5, 3}));
  EXPECT_EQ(std::vector<int32_t>(types.begin() + 6, types.end()), (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
}

TEST_F(TokenizerEncoderTest, TokenisesASplitTheSameOnAnyNumberOfThreads) {
  std::string bytes = "text,label\n";
  for (int row = 0; row < 3000; ++row) {
    bytes +=
        std::string(row % 3 == 0 ? "hello" : "worlds!") + (row % 5 == 0 ? " unknown hello" : "") + ",0\n";
  }
  Table table = read_csv(text_file_from_memory("f.csv", bytes));
  const ColumnChoice columns = choose_columns(table);
  const TextSplit split(std::move(table), columns);
  const TokenizerEncoder encoder(*tokenizer_);
  const TokenSet one = tokenize_split(split, encoder, {8, 1, {}});
  EXPECT_EQ(one.num_rows(), 3000);
  EXPECT_TRUE(one.is_narrow());
  EXPECT_EQ(tokenize_split(split, encoder, {8, 3, {}}), one);
  EXPECT_NE(encoder.content_hash(), 0u);
}

TEST_F(TokenizerEncoderTest, TokenizesRowsOfWordsTheSameOnAnyNumberOfThreads) {
  // The word "\u200b" has no token. In the last row, max_length leaves room only for "Worlds" and one token of "hello!".
  const std::vector<std::vector<std::string_view>> kinds = {
      {"Hello", "worlds!"}, {"\u200b", "zzz", "hello"}, {}, {"Worlds", "hello!", "hello"}};
  WordRows rows;
  rows.num_rows = 2000;
  rows.words = [&](int64_t row, std::vector<std::string_view>& words) {
    const auto& kind = kinds[static_cast<size_t>(row) % kinds.size()];
    words.insert(words.end(), kind.begin(), kind.end());
  };
  rows.where = [](int64_t row) { return fmt::format("f.jsonl:{}", row + 1); };
  const TokenizerEncoder encoder(*tokenizer_);
  const WordTokens one = tokenize_words(rows, encoder, {5, 1, {}});
  EXPECT_EQ(one.tokens.num_rows(), 2000);
  EXPECT_EQ(one.tokens.truncation(), (TruncationCount{1000, 500 * 1 + 500 * 2}));
  ASSERT_EQ(static_cast<int64_t>(one.word_starts.size()), one.tokens.num_tokens());
  const std::vector<std::vector<int32_t>> ids = {{2, 4, 5, 6, 3}, {2, 1, 4, 3}, {2, 3}, {2, 5, 6, 4, 3}};
  const std::vector<std::vector<int32_t>> starts = {
      {-1, 0, 1, -1, -1}, {-1, 1, 2, -1}, {-1, -1}, {-1, 0, -1, 1, -1}};
  size_t at = 0;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const auto kind = static_cast<size_t>(row) % kinds.size();
    std::vector<int32_t> got(static_cast<size_t>(one.tokens.length(row)));
    one.tokens.copy_ids(row, got.data());
    ASSERT_EQ(got, ids[kind]) << row;
    const auto begin = one.word_starts.begin() + static_cast<std::ptrdiff_t>(at);
    ASSERT_EQ(std::vector<int32_t>(begin, begin + static_cast<std::ptrdiff_t>(got.size())), starts[kind])
        << row;
    at += got.size();
  }
  const WordTokens three = tokenize_words(rows, encoder, {5, 3, {}});
  EXPECT_EQ(three.tokens, one.tokens);
  EXPECT_EQ(three.word_starts, one.word_starts);
  EXPECT_EQ(error_of([&] { tokenize_words(rows, encoder, {1, 1, {}}); }).substr(0, 14), "2: f.jsonl:1: ");
}

TEST_F(TokenizerEncoderTest, AnErrorOfTheTokenizerNamesTheRow) {
  Table table = read_csv(text_file_from_memory("f.csv", "text,label\nhello,0\n"));
  const ColumnChoice columns = choose_columns(table);
  const TextSplit split(std::move(table), columns);
  const std::string error = error_of([&] {
    tokenize_split(split, TokenizerEncoder(*tokenizer_), {1, 1, {}});
  });
  EXPECT_TRUE(error.starts_with("2: f.csv:2: ")) << error;
}

}  // namespace
}  // namespace plimsoll
