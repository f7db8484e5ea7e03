#include "io/text/word_piece.h"

#include <gtest/gtest.h>

#include <map>

#include "io/text/testing/tokenizer_fixtures.h"

namespace plimsoll::text {
namespace {

std::vector<int32_t> split(const WordPiece& model, std::string_view word) {
  std::vector<WordToken> tokens;
  model.split(word, &tokens);
  std::vector<int32_t> result;
  for (const WordToken& token : tokens) {
    result.push_back(token.id);
    result.push_back(static_cast<int32_t>(token.end));
  }
  return result;
}

Vocabulary small_vocabulary() {
  return {{"[UNK]", 0}, {"un", 1},      {"##aff", 2}, {"##able", 3},
          {"unaf", 4},  {"##fable", 5}, {"a", 6},     {"##a", 7}};
}

TEST(WordPieceTest, TakesTheLongestTokenEveryTime) {
  const WordPiece model(small_vocabulary(), {});
  EXPECT_EQ(split(model, "unaffable"), (std::vector<int32_t>{4, 4, 5, 9}));
  // WordPiece is greedy: after the longest match it does not try a shorter one
  EXPECT_EQ(split(model, "unaff"), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(split(model, "aaa"), (std::vector<int32_t>{6, 1, 7, 2, 7, 3}));
  EXPECT_EQ(split(model, "b"), (std::vector<int32_t>{0, 1}));
}

TEST(WordPieceTest, CountsCodePointsNotBytes) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.push_back({"é", 8});
  vocabulary.push_back({"##é", 9});
  const WordPiece model(vocabulary, {.max_chars_per_word = 3});
  EXPECT_EQ(split(model, "ééé"), (std::vector<int32_t>{8, 2, 9, 4, 9, 6}));
  EXPECT_EQ(split(model, "éééé"), (std::vector<int32_t>{0, 8}));
}

TEST(WordPieceTest, WorksWithoutContinuingTokensAndWithAnEmptyPrefix) {
  const Vocabulary vocabulary = {{"[UNK]", 0}, {"a", 1}, {"", 2}};
  WordPieceSpec spec;
  EXPECT_EQ(split(WordPiece(vocabulary, spec), "a"), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(split(WordPiece(vocabulary, spec), "aa"), (std::vector<int32_t>{0, 2}));
  spec.continuing_prefix = "";
  EXPECT_EQ(split(WordPiece(vocabulary, spec), "aa"), (std::vector<int32_t>{1, 1, 1, 2}));
}

TEST(ByteTrieTest, FindsWhatWasPutInAndNothingElse) {
  // Tests random keys that include every byte value, shared prefixes, keys that are prefixes of others, and one long key.
  std::map<std::string, int32_t> keys;
  uint64_t state = hash64("FindsWhatWasPutInAndNothingElse");
  for (int i = 0; i < 5000; ++i) {
    std::string key;
    for (uint64_t n = state % 9; n > 0; --n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      key.push_back(static_cast<char>((state >> 33) % (i % 2 == 0 ? 3 : 256)));
    }
    state = state * 6364136223846793005u + 1442695040888963407u;
    keys.emplace(key, i);
  }
  keys.emplace(std::string(100000, 'x'), 77777);
  std::vector<std::pair<std::string_view, int32_t>> entries(keys.begin(), keys.end());
  const ByteTrie trie(std::move(entries));
  size_t num_present = 0;
  for (const auto& [key, value] : keys) {
    EXPECT_EQ(trie.find(key), value);
    const std::string longer = key + "\x01";
    const auto found = keys.find(longer);
    EXPECT_EQ(trie.find(longer), found == keys.end() ? ByteTrie::kNoValue : found->second);
    ++num_present;
  }
  EXPECT_GT(num_present, 2000u);
  EXPECT_EQ(ByteTrie().find("a"), ByteTrie::kNoValue);
  EXPECT_EQ(ByteTrie().find(""), ByteTrie::kNoValue);
}

}  // namespace
}  // namespace plimsoll::text
