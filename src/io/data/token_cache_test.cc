#include "io/data/token_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/data/csv_reader.h"
#include "io/data/test_encoder.h"

namespace plimsoll {
namespace {

TextSplit split_of(const std::string& bytes) {
  Table table = read_csv(text_file_from_memory("f.csv", bytes));
  const ColumnChoice columns = choose_columns(table);
  return TextSplit(std::move(table), columns);
}

constexpr const char* kRows = "a,b\nhello,you\nfine,thanks\nx,\n";

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

TEST(TokenCache, IsBuiltOnceAndThenRead) {
  const ScratchFolder folder;
  const std::filesystem::path cache = folder.path() / "deep" / "cache";
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const CachedTokens built = tokenize_cached(split, encoder, {8, 1, {}}, cache);
  EXPECT_EQ(built.outcome, CacheOutcome::kBuilt);
  const int64_t calls = encoder.num_calls;
  const CachedTokens read = tokenize_cached(split, encoder, {8, 1, {}}, cache);
  EXPECT_EQ(read.outcome, CacheOutcome::kHit);
  EXPECT_EQ(encoder.num_calls, calls);
  EXPECT_EQ(read.tokens, built.tokens);
  EXPECT_EQ(read.tokens.truncation().rows, 2);
  EXPECT_EQ(files_in(cache).size(), 1u);
}

TEST(TokenCache, KeyDependsOnAllThatIdsDependOn) {
  const ScratchFolder folder;
  const auto outcome = [&](const std::string& rows, int32_t encoder, int64_t length, int64_t keep) {
    TextSplit split = split_of(rows);
    split.keep_first(keep);
    return tokenize_cached(split, LetterEncoder(encoder), {length, 1, {}}, folder.path()).outcome;
  };
  EXPECT_EQ(outcome(kRows, 10, 8, 3), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(kRows, 10, 8, 3), CacheOutcome::kHit);
  EXPECT_EQ(outcome(std::string(kRows) + "y,z\n", 10, 8, 3), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(kRows, 11, 8, 3), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(kRows, 10, 9, 3), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(kRows, 10, 8, 2), CacheOutcome::kBuilt);
  Table table = read_csv(text_file_from_memory("f.csv", kRows));
  const TextSplit swapped(std::move(table),
                          choose_columns(read_csv(text_file_from_memory("f.csv", kRows)), {{"b", "a"}, "l"}));
  EXPECT_EQ(tokenize_cached(swapped, LetterEncoder(10), {8, 1, {}}, folder.path()).outcome,
            CacheOutcome::kBuilt);
}

TEST(TokenCache, EveryDamagedByteAndEveryLengthIsRebuilt) {
  const ScratchFolder folder;
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const TokenSet truth = tokenize_cached(split, encoder, {8, 1, {}}, folder.path()).tokens;
  const std::filesystem::path file = files_in(folder.path()).at(0);
  const std::string good = ScratchFolder::read(file);
  ASSERT_GT(good.size(), 100u);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    folder.write(file.filename().string(), bad);
    const CachedTokens result = tokenize_cached(split, encoder, {8, 1, {}}, folder.path());
    ASSERT_EQ(result.outcome, CacheOutcome::kRebuilt) << "byte " << at;
    ASSERT_EQ(result.tokens, truth) << "byte " << at;
    ASSERT_EQ(ScratchFolder::read(file), good) << "byte " << at;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    folder.write(file.filename().string(), good.substr(0, size));
    ASSERT_EQ(tokenize_cached(split, encoder, {8, 1, {}}, folder.path()).outcome, CacheOutcome::kRebuilt)
        << size;
  }
  folder.write(file.filename().string(), good + "x");
  const CachedTokens longer = tokenize_cached(split, encoder, {8, 1, {}}, folder.path());
  EXPECT_EQ(longer.outcome, CacheOutcome::kRebuilt);
  EXPECT_NE(longer.detail.find(fmt::format("it has {} bytes instead of {}", good.size() + 1, good.size())),
            std::string::npos)
      << longer.detail;
  EXPECT_EQ(files_in(folder.path()).size(), 1u);
}

TEST(TokenCache, AFolderThatCannotBeWrittenIsDoneWithout) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.write("a-file", "x");
  const CachedTokens result = tokenize_cached(split_of(kRows), LetterEncoder(), {8, 1, {}}, file / "cache");
  EXPECT_EQ(result.outcome, CacheOutcome::kNotSaved);
  EXPECT_NE(result.detail.find("cannot create"), std::string::npos) << result.detail;
  EXPECT_EQ(result.tokens.num_rows(), 3);
}

}  // namespace
}  // namespace plimsoll
