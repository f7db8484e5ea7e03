#include "io/data/table_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "io/data/testing/compressed.h"
#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

std::string rows(int64_t count) {
  std::string text = "text,label\n";
  for (int64_t i = 0; i < count; ++i) text += fmt::format("word{} a,{}\n", i * 7919 % 1000, i % 2);
  return text;
}

TEST(CompressedText, GivesTheTextBack) {
  // The last text is so long that its file is decompressed in several pieces.
  for (const int64_t count : {0, 1, 100, 100000}) {
    const std::string text = rows(count);
    EXPECT_EQ(decompress("f", gzipped(text), Compression::kGzip, 0), text) << count;
    EXPECT_EQ(decompress("f", zstd_packed(text), Compression::kZstd, 0), text) << count;
  }
}

TEST(CompressedText, ReadsAllMembersAndFrames) {
  EXPECT_EQ(decompress("f", gzipped("a,b\n") + gzipped("1,2\n"), Compression::kGzip, 0), "a,b\n1,2\n");
  EXPECT_EQ(decompress("f", gzipped("a,b\n") + std::string(512, '\0'), Compression::kGzip, 0), "a,b\n");
  EXPECT_EQ(decompress("f", gzipped("a") + std::string(3, '\0') + gzipped("b"), Compression::kGzip, 0), "ab");
  EXPECT_EQ(decompress("f", zstd_packed("a,b\n") + zstd_packed("1,2\n"), Compression::kZstd, 0),
            "a,b\n1,2\n");
  const std::string skippable("\x50\x2A\x4D\x18\x02\x00\x00\x00xy", 10);
  EXPECT_EQ(decompress("f", skippable + zstd_packed("a"), Compression::kZstd, 0), "a");
}

// A file that was cut short must be refused, wherever the cut is.
TEST(CompressedText, NamesACutFile) {
  const std::string text = rows(300);
  for (const bool is_gzip : {true, false}) {
    const std::string packed = is_gzip ? gzipped(text) : zstd_packed(text);
    const Compression compression = is_gzip ? Compression::kGzip : Compression::kZstd;
    for (size_t size = 1; size < packed.size(); size += 1 + packed.size() / 97) {
      const std::string error = error_of([&] { decompress("f", packed.substr(0, size), compression, 0); });
      EXPECT_TRUE(error.starts_with("4: f: the compressed data ends too early, after "))
          << size << ": " << error;
    }
    const std::string last =
        error_of([&] { decompress("f", packed.substr(0, packed.size() - 1), compression, 0); });
    EXPECT_NE(last.find("the file is cut; copy or download it again"), std::string::npos) << last;
  }
}

TEST(CompressedText, NamesADamagedFile) {
  const std::string text = rows(300);
  std::string packed = gzipped(text);
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_TRUE(error_of([&] {
                decompress("f", packed, Compression::kGzip, 0);
              }).starts_with("4: f: the compressed data "));
  packed = gzipped(text);
  packed[packed.size() - 6] ^= 0x55;  // damages the checksum
  EXPECT_NE(error_of([&] { decompress("f", packed, Compression::kGzip, 0); }).find("incorrect data check"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              decompress("f", gzipped(text) + "more", Compression::kGzip, 0);
            }).find("other bytes follow its end"),
            std::string::npos);
  packed = zstd_packed(text);
  packed[8] ^= 0x55;
  EXPECT_TRUE(error_of([&] {
                decompress("f", packed, Compression::kZstd, 0);
              }).starts_with("4: f: the compressed data "));
}

TEST(CompressedText, LimitsWhatAFileExpandsTo) {
  const std::string zeros(size_t{300} << 20, 'x');
  for (const bool is_gzip : {true, false}) {
    const std::string packed = is_gzip ? gzipped(zeros) : zstd_packed(zeros);
    const Compression compression = is_gzip ? Compression::kGzip : Compression::kZstd;
    const std::string bomb = error_of([&] { decompress("f", packed, compression, 0); });
    EXPECT_TRUE(bomb.starts_with(
        fmt::format("4: f: the file has {} bytes and decompresses to more than 268435456", packed.size())))
        << bomb;
    const std::string limit = error_of([&] { decompress("f", packed, compression, 1000); });
    EXPECT_TRUE(limit.starts_with("3: f: the file is decompressed into memory and has more than 1000 bytes"))
        << limit;
  }
}

TEST(CompressedText, NamesWhatAFileReallyIs) {
  const struct {
    std::string bytes;
    Compression compression;
    const char* message;
  } cases[] = {
      {"text,label\na,1\n", Compression::kGzip,
       "4: f: the name ends in .gz, but the file is not compressed by gzip; remove .gz from its name if it "
       "is a text"},
      {"text,label\na,1\n", Compression::kZstd,
       "4: f: the name ends in .zst, but the file is not compressed by Zstandard"},
      {gzipped(gzipped("a,b\n")), Compression::kGzip,
       "4: f: unpack the file with `gunzip -c f > NEW` first: NEW is compressed with gzip"},
      {zstd_packed("PK\x03\x04 and more"), Compression::kZstd,
       "4: f: unpack the file with `zstd -dc f > NEW` first: NEW is a zip archive"},
      {zstd_packed("a"), Compression::kGzip,
       "4: f: the file is compressed with zstd, whatever its name says"},
      {gzipped("a"), Compression::kZstd, "4: f: the file is compressed with gzip, whatever its name says"},
      {"version https://git-lfs.github.com/spec/v1\n", Compression::kGzip,
       "4: f: the file is a Git LFS pointer"},
      {"PK\x03\x04 and more", Compression::kGzip, "4: f: the file is a zip archive"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { decompress("f", c.bytes, c.compression, 0); });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

TEST(CompressedText, IsReadByEveryReader) {
  const test::ScratchFolder folder;
  const std::string csv = "text,label\na,1\nb,0\n";
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  EXPECT_EQ(read_table(folder.write("a.csv.gz", gzipped(csv))).num_rows(), 2);
  EXPECT_EQ(read_table(folder.write("a.CSV.GZ", gzipped(csv))).num_rows(), 2);
  EXPECT_EQ(read_table(folder.write("a.csv.zst", zstd_packed(csv))).num_rows(), 2);
  EXPECT_EQ(read_table(folder.write("a.tsv.zst", zstd_packed("text\tlabel\na\t1\n"))).num_columns(), 2);
  EXPECT_EQ(read_table(folder.write("a.jsonl.gz", gzipped(lines))).num_rows(), 2);
  EXPECT_EQ(read_table(folder.write("a.json.gz", gzipped("[" + lines.substr(0, 13) + "]"))).num_rows(), 1);
  EXPECT_EQ(read_table(folder.write("a.conll.zst", zstd_packed("EU O\n\nx O\n"))).num_rows(), 2);
  // Error messages must state the line in the decompressed text.
  EXPECT_NE(error_of([&] {
              read_table(folder.write("b.csv.gz", gzipped("a,b\n1\n")));
            }).find("b.csv.gz:2: this row has"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_table(folder.write("a.gz", gzipped(csv))); }).find("has no extension"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_table(folder.write("c.csv.gz", "")); }).find("the file is empty"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
