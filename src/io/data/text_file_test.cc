#include "io/data/text_file.h"

#include <gtest/gtest.h>

#include <string>

#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using namespace std::string_literals;

TEST(TextFile, DropsAByteOrderMarkButHashesIt) {
  const TextFile with = text_file_from_memory("a", "\xEF\xBB\xBFtext");
  const TextFile without = text_file_from_memory("a", "text");
  EXPECT_EQ(with.bytes, "text");
  EXPECT_NE(with.content_hash, without.content_hash);
}

TEST(TextFile, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"", "4: f.csv: the file is empty"},
      {"\xEF\xBB\xBF", "4: f.csv: the file is empty"},
      {"ab\ncd\0e"s, "4: f.csv:2:3: NUL byte (0x00) at byte 5"},
      {"\xFF\xFE"s + "a\0"s, "4: f.csv: the file begins with a UTF-16 byte-order mark"},
      {"ok\n\xC3\xA4 caf\xE9 x", "4: f.csv:2:6: byte 0xE9 is not valid UTF-8"},
      {"a\xC0\xAF", "4: f.csv:1:2: byte 0xC0 is not valid UTF-8"},     // overlong encoding
      {"\xED\xA0\x80", "4: f.csv:1:1: byte 0xED is not valid UTF-8"},  // encoded surrogate
      {"\xF4\x90\x80\x80", "4: f.csv:1:1: byte 0xF4 is not valid"},    // above U+10FFFF
      {"cut \xE2\x82", "4: f.csv:1:5: byte 0xE2 is not valid UTF-8"},  // incomplete sequence
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { text_file_from_memory("f.csv", c.bytes); });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
  // The command that converts the text must be one that can be run.
  const auto advice = [](const char* name, std::string bytes) {
    const std::string error = error_of([&] { text_file_from_memory(name, std::move(bytes)); });
    return error.substr(error.rfind(": ") + 2);
  };
  EXPECT_EQ(advice("f.csv", "caf\xE9"), "iconv -f LATIN1 -t UTF-8 f.csv > converted");
  EXPECT_EQ(advice("f.csv", "\xFF\xFE\0\0a\0\0\0"s), "iconv -f UTF-32 -t UTF-8 f.csv > converted");
  EXPECT_EQ(advice("f.csv", "\xFE\xFF\0a"s), "iconv -f UTF-16 -t UTF-8 f.csv > converted");
  EXPECT_EQ(advice("standard input", "caf\xE9"), "pipe it through iconv -f LATIN1 -t UTF-8");
}

TEST(TextFile, ReadsFilesAndRefusesFoldersAndMissingOnes) {
  const test::ScratchFolder folder;
  EXPECT_EQ(read_data_file(folder.write("a.txt", "x\r\ny")).bytes, "x\r\ny");
  EXPECT_NE(error_of([&] { read_data_file(folder.path()); }).find("this is a folder"), std::string::npos);
  EXPECT_NE(error_of([&] { read_data_file(folder.path() + "/none"); }).find("No such file"),
            std::string::npos);
}

TEST(TextFile, PlacesCountCodePointsAndEveryLineEnd) {
  const std::string text =
      "a\r\n\xC3\xA4"
      "b\rc\n\nd";
  EXPECT_EQ(place_of(text, 0).column, 1);
  EXPECT_EQ(place_of(text, 5).line, 2);
  EXPECT_EQ(place_of(text, 5).column, 2);
  EXPECT_EQ(place_of(text, static_cast<int64_t>(text.size()) - 1).line, 5);
}

TEST(TextFile, ExcerptsEscapeAndCut) {
  EXPECT_EQ(excerpt("a\tb\n\x01"), "a\\tb\\n\\x01");
  EXPECT_EQ(excerpt("\xC3\xA4\xC3\xA4\xC3\xA4", 2), "\xC3\xA4\xC3\xA4...");
}

}  // namespace
}  // namespace plimsoll
