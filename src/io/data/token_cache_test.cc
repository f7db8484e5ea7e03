#include "io/data/token_cache.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file_fault.h"
#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

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
  const test::ScratchFolder folder;
  const std::filesystem::path cache = folder.path() + "/deep/cache";
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const CachedTokens built = tokenize_cached(split, encoder, {8, 1, {}}, cache.string());
  EXPECT_EQ(built.outcome, CacheOutcome::kBuilt);
  const int64_t calls = encoder.num_calls;
  const CachedTokens read = tokenize_cached(split, encoder, {8, 1, {}}, cache.string());
  EXPECT_EQ(read.outcome, CacheOutcome::kHit);
  EXPECT_EQ(encoder.num_calls, calls);
  EXPECT_EQ(read.tokens, built.tokens);
  EXPECT_EQ(read.tokens.truncation().rows, 2);
  EXPECT_EQ(files_in(cache).size(), 1u);
}

TEST(TokenCache, IsWrittenAnewWhereAskedTo) {
  const test::ScratchFolder folder;
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const std::string cache = folder.path();
  tokenize_cached(split, encoder, {8, 1, {}}, cache);
  const std::filesystem::path file = files_in(cache).at(0);
  const std::string good = test::ScratchFolder::read(file);
  std::filesystem::resize_file(file, good.size() / 2);
  const int64_t calls = encoder.num_calls;
  const CachedTokens anew =
      tokenize_cached(split, encoder, {8, 1, {}}, cache, posix_file_system(), CacheUse::kRewrite);
  EXPECT_EQ(anew.outcome, CacheOutcome::kBuilt);
  EXPECT_GT(encoder.num_calls, calls);
  EXPECT_EQ(test::ScratchFolder::read(file), good);
  EXPECT_EQ(files_in(cache).size(), 1u);
}

TEST(TokenCache, KeyDependsOnAllThatIdsDependOn) {
  const test::ScratchFolder folder;
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

std::string content_of(FileSystem& disk, const std::string& path) {
  return read_text_file(disk, path, 1 << 20);
}

TEST(TokenCache, EveryDamagedByteAndEveryLengthIsRebuilt) {
  MemoryFileSystem disk;
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const TokenSet truth = tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk).tokens;
  const std::string path = "/cache/" + disk.list("/cache").at(0).name;
  const std::string good = content_of(disk, path);
  ASSERT_GT(good.size(), 100u);
  for (size_t at = 0; at < good.size(); ++at) {
    disk.damage(path, static_cast<int64_t>(at));
    ASSERT_NE(content_of(disk, path), good);
    const CachedTokens result = tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk);
    ASSERT_EQ(result.outcome, CacheOutcome::kRebuilt) << "byte " << at;
    ASSERT_EQ(result.tokens, truth) << "byte " << at;
    ASSERT_EQ(content_of(disk, path), good) << "byte " << at;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    disk.create(path)->write(std::as_bytes(std::span(good).first(size)));
    ASSERT_EQ(tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk).outcome, CacheOutcome::kRebuilt)
        << size;
  }
  disk.open_append(path)->write(std::as_bytes(std::span(good).first(1)));
  const CachedTokens longer = tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk);
  EXPECT_EQ(longer.outcome, CacheOutcome::kRebuilt);
  EXPECT_NE(longer.detail.find("it is not a token cache, or its end is missing"), std::string::npos)
      << longer.detail;
  EXPECT_EQ(disk.list("/cache").size(), 1u);
}

TEST(TokenCache, TheSameBytesReadByOtherRulesAreOtherTexts) {
  MemoryFileSystem disk;
  const auto outcome = [&](QuoteRule quotes) {
    CsvOptions options;
    options.quotes = quotes;
    Table table = read_csv(text_file_from_memory("f.csv", "a,b\n\"x\",y\n"), options);
    const ColumnChoice columns = choose_columns(table);
    return tokenize_cached(TextSplit(std::move(table), columns), LetterEncoder(), {8, 1, {}}, "/cache", disk)
        .outcome;
  };
  EXPECT_EQ(outcome(QuoteRule::kRfc4180), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(QuoteRule::kNone), CacheOutcome::kBuilt);
  EXPECT_EQ(outcome(QuoteRule::kNone), CacheOutcome::kHit);
}

TEST(TokenCache, AFolderThatCannotBeWrittenIsDoneWithout) {
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder.write("a-file", "x");
  const CachedTokens result =
      tokenize_cached(split_of(kRows), LetterEncoder(), {8, 1, {}}, (file / "cache").string());
  EXPECT_EQ(result.outcome, CacheOutcome::kNotSaved);
  EXPECT_NE(result.detail.find("cannot "), std::string::npos) << result.detail;
  EXPECT_EQ(result.tokens.num_rows(), 3);
}

// If the disk is full or starts to fail at any call, the tokens must be returned nevertheless, and an incomplete file must never be read.
TEST(TokenCache, AFailingDiskCostsOnlyTheCache) {
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const TokenSet truth = tokenize_split(split, encoder, {8, 1, {}});
  int64_t num_faults = 0;
  for (const int error_number : {ENOSPC, EIO}) {
    for (int64_t call = 0;; ++call) {
      MemoryFileSystem disk;
      FaultyFileSystem faulty(disk);
      faulty.fail_from(call, error_number);
      const CachedTokens result = tokenize_cached(split, encoder, {8, 1, {}}, "/cache", faulty);
      ASSERT_EQ(result.tokens, truth);
      if (result.outcome == CacheOutcome::kBuilt) {
        break;
      }
      ASSERT_EQ(result.outcome, CacheOutcome::kNotSaved) << call;
      const CachedTokens again = tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk);
      ASSERT_EQ(again.tokens, truth);
      ASSERT_EQ(again.outcome, CacheOutcome::kBuilt) << call;
      ++num_faults;
    }
  }
  EXPECT_GE(num_faults, 10);
}

TEST(TokenCache, APowerFailureLeavesNothingThatIsTakenForWhole) {
  const TextSplit split = split_of(kRows);
  const LetterEncoder encoder;
  const TokenSet truth = tokenize_split(split, encoder, {8, 1, {}});
  int64_t num_crashes = 0;
  for (const AfterCrash after : kAllCrashes) {
    for (int64_t call = 0; call < 12; ++call) {
      MemoryFileSystem disk;
      FaultyFileSystem faulty(disk);
      faulty.lose_power_at(call);
      try {
        tokenize_cached(split, encoder, {8, 1, {}}, "/cache", faulty);
      } catch (const PowerLoss&) {
        ++num_crashes;
      }
      disk.crash(after);
      ASSERT_EQ(tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk).tokens, truth) << call;
      ASSERT_EQ(tokenize_cached(split, encoder, {8, 1, {}}, "/cache", disk).outcome, CacheOutcome::kHit)
          << call;
    }
  }
  EXPECT_GE(num_crashes, 20);
}

// A file that is written in parts must have the same bytes as a file that is written at once, and must be mapped when it is read from a
// real disk.
TEST(TokenCache, PartsGiveTheFileOfTheWhole) {
  const test::ScratchFolder folder;
  for (const int32_t first_letter : {10, 65536 - 'c'}) {
    const LetterEncoder encoder(first_letter);
    const TextSplit split = split_of("a,label\nabc,0\nd,1\nefghi,1\nj,0\n");
    const TokenSet whole = tokenize_split(split, encoder, {8, 1, {}});
    const TokenCacheKey key{.text_hash = 1, .encoder_hash = 2, .max_seq_length = 8, .num_rows = 4};
    ASSERT_EQ(write_token_cache(posix_file_system(), folder.path() + "/whole", key, {.tokens = whole}), "");
    {
      TokenCacheWriter writer(posix_file_system(), folder.path() + "/parts", whole.max_id());
      for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 4}}) {
        const auto offsets =
            whole.offsets().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin) + 1);
        writer.add(whole.with_rows({offsets.begin(), offsets.end()}).copied());
      }
      writer.finish(key);
    }
    EXPECT_EQ(test::ScratchFolder::read(folder.path() + "/parts"),
              test::ScratchFolder::read(folder.path() + "/whole"));
    std::string why_not;
    const auto read = read_token_cache(posix_file_system(), folder.path() + "/parts", key, why_not);
    ASSERT_TRUE(read.has_value()) << why_not;
    std::filesystem::remove(folder.path() + "/parts");
    EXPECT_EQ(read->tokens, whole);
    EXPECT_EQ(read->tokens.max_id(), whole.max_id());
    EXPECT_EQ(read->content_hash, content_hash(whole));
    EXPECT_EQ(read->tokens.held_bytes(), 0);
    EXPECT_EQ(read->tokens.mapped_bytes(), whole.held_bytes());
    read->tokens.release_pages();
    EXPECT_EQ(read->tokens, whole);
    EXPECT_EQ(read->tokens.copied(), whole);
  }
}

TEST(TokenCache, AWriterThatIsNotFinishedLeavesNoFile) {
  MemoryFileSystem disk;
  { const TokenCacheWriter writer(disk, "/cache/file", 10); }
  EXPECT_TRUE(disk.list("/cache").empty());
  FaultyFileSystem faulty(disk);
  faulty.fail_from(2, ENOSPC);
  EXPECT_THROW(
      {
        TokenCacheWriter writer(faulty, "/cache/file", 10);
        writer.add(TokenSet::from_parts({1, 2}, {}, {}, {0, 2}, {}));
        writer.finish({});
      },
      FileError);
  EXPECT_TRUE(disk.list("/cache").empty());
}

TEST(TokenCache, JoinedPartsAreTheWhole) {
  for (const int32_t first_letter : {10, 65536 - 'c'}) {
    const TextSplit split = split_of("a,label\nabc,0\nd,1\nefghi,1\nj,0\n");
    const TokenSet whole = tokenize_split(split, LetterEncoder(first_letter), {8, 1, {}});
    TokenJoiner joiner;
    for (size_t row = 0; row < 4; ++row) {
      joiner.add(whole.with_rows({whole.offsets()[row], whole.offsets()[row + 1]}).copied());
    }
    EXPECT_EQ(std::move(joiner).finish(), whole);
  }
}

TEST(TokenCache, AFileThatCannotBeReadIsBuiltAgain) {
  const TextSplit split = split_of(kRows);
  MemoryFileSystem disk;
  tokenize_cached(split, LetterEncoder(), {8, 1, {}}, "/cache", disk);
  const std::string name = disk.list("/cache").at(0).name;
  FaultyFileSystem faulty(disk);
  faulty.fail_reads_of("/cache/" + name, EIO);
  const CachedTokens result = tokenize_cached(split, LetterEncoder(), {8, 1, {}}, "/cache", faulty);
  EXPECT_EQ(result.outcome, CacheOutcome::kRebuilt);
  EXPECT_NE(result.detail.find("cannot read"), std::string::npos) << result.detail;
}

}  // namespace
}  // namespace plimsoll
