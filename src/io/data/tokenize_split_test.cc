#include "io/data/tokenize_split.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

TextSplit split_of(const std::string& bytes) {
  Table table = read_csv(text_file_from_memory("f.csv", bytes));
  const ColumnChoice columns = choose_columns(table);
  return TextSplit(std::move(table), columns);
}

std::string random_file(TestRandom& random, int64_t num_rows, bool pairs) {
  std::string bytes = pairs ? "a,b\n" : "a,label\n";
  for (int64_t row = 0; row < num_rows; ++row) {
    const auto first = static_cast<size_t>(1 + random.below(30));
    const auto second = static_cast<size_t>(random.below(30));
    bytes += std::string(first, static_cast<char>('a' + random.below(26))) + "," +
             (pairs ? std::string(second, static_cast<char>('a' + random.below(26))) : "0") + "\n";
  }
  return bytes;
}

TEST(Tokenize, KeepsIdsTypesAndCountsWhatItCuts) {
  const TextSplit split = split_of("a,b\nab,c\nabcdefgh,ab\n");
  const LetterEncoder encoder;
  const TokenSet tokens = tokenize_split(split, encoder, {8, 1, {}});
  ASSERT_EQ(tokens.num_rows(), 2);
  EXPECT_EQ(tokens.length(0), 6);
  EXPECT_EQ(tokens.length(1), 8);
  EXPECT_EQ(tokens.num_tokens(), 14);
  EXPECT_EQ(tokens.longest(), 8);
  EXPECT_EQ(tokens.truncation(), (TruncationCount{1, 5}));
  std::vector<int32_t> ids(6);
  std::vector<int32_t> types(6);
  tokens.copy_ids(0, ids.data());
  tokens.copy_types(0, types.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 10 + 'a', 10 + 'b', 2, 10 + 'c', 2}));
  EXPECT_EQ(types, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(tokens.lengths(), (std::vector<int32_t>{6, 8}));
}

TEST(Tokenize, TakesAsFewBytesAsIdsAllow) {
  const TextSplit single = split_of("a,label\nabc,0\nd,1\n");
  const TokenSet small = tokenize_split(single, LetterEncoder(10), {16, 1, {}});
  EXPECT_TRUE(small.is_narrow());
  EXPECT_FALSE(small.has_types());
  EXPECT_EQ(small.held_bytes(), small.num_tokens() * 2 + (small.num_rows() + 1) * 8);
  const TokenSet large = tokenize_split(single, LetterEncoder(65536 - 'c'), {16, 1, {}});
  EXPECT_FALSE(large.is_narrow());
  EXPECT_EQ(large.held_bytes(), large.num_tokens() * 4 + (large.num_rows() + 1) * 8);
  EXPECT_EQ(large.max_id(), 65537);
  std::vector<int32_t> ids(5);
  large.copy_ids(0, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 65534, 65535, 65536, 2}));
}

TEST(Tokenize, OneWideRowAmongManyWidensAll) {
  std::string bytes = "a,label\n";
  for (int row = 0; row < 700; ++row) {
    bytes += row == 600 ? "z,0\n" : "a,0\n";
  }
  const TokenSet tokens = tokenize_split(split_of(bytes), LetterEncoder(65535 - 'a'), {16, 2, {}});
  EXPECT_FALSE(tokens.is_narrow());
  std::vector<int32_t> ids(3);
  tokens.copy_ids(0, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 65535, 2}));
  tokens.copy_ids(600, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 65535 + 25, 2}));
}

TEST(Tokenize, GivesTheSameWithAnyNumberOfThreads) {
  TestRandom random;
  for (const bool pairs : {false, true}) {
    const TextSplit split = split_of(random_file(random, 2000, pairs));
    const LetterEncoder encoder;
    const TokenSet one = tokenize_split(split, encoder, {32, 1, {}});
    int64_t done = 0;
    for (const int threads : {2, 3, 8}) {
      EXPECT_EQ(tokenize_split(split, encoder, {32, threads, [&](int64_t rows) { done = rows; }}), one);
      EXPECT_EQ(done, 2000);
    }
  }
}

TEST(Tokenize, NamesTheFirstBadRow) {
  std::string bytes = "a,label\n";
  for (int row = 0; row < 2000; ++row) {
    bytes += row == 300 || row == 1800 ? "refused,0\n" : "fine,0\n";
  }
  const TextSplit split = split_of(bytes);
  EXPECT_EQ(error_of([&] {
              tokenize_split(split, LetterEncoder(), {32, 1, {}});
            }),
            "4: f.csv:302: this text is refused");
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(error_of([&] {
                tokenize_split(split, LetterEncoder(), {32, 4, {}});
              }),
              "4: f.csv:302: this text is refused");
  }
}

}  // namespace
}  // namespace plimsoll
