#include "labelled_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

namespace plimsoll::demo {
namespace {

std::string path_of(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

TEST(LabelledText, ReadsWhatItWrote) {
  const std::vector<LabelledText> rows{{"a: b", "libs"}, {"c \"d\"", "games"}};
  const std::string path = path_of("demo_rows.tsv");
  write_rows(path, rows);
  const std::vector<LabelledText> read = read_rows(path);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].text, "c \"d\"");
  EXPECT_EQ(read[1].label, "games");
}

TEST(LabelledText, NamesTheLineThatIsWrong) {
  const std::string path = path_of("demo_bad_rows.tsv");
  write_text(path, "sentence\tlabel\na\tb\nonly one field\n");
  try {
    read_rows(path);
    FAIL() << "a line without a tab was read";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(path + ":3:"), std::string::npos) << error.what();
  }
}

TEST(Options, TakesKnownNamesAndWholeNumbers) {
  char program[] = "p", name[] = "--rows", value[] = "12", bad[] = "1x";
  constexpr std::string_view kKnown[] = {"--rows"};
  char* good_words[] = {program, name, value};
  EXPECT_EQ(Options(3, good_words, kKnown).number("--rows", 5), 12);
  EXPECT_EQ(Options(1, good_words, kKnown).number("--rows", 5), 5);
  char* bad_words[] = {program, name, bad};
  EXPECT_THROW(Options(3, bad_words, kKnown).number("--rows", 5), std::runtime_error);
  EXPECT_THROW(Options(2, good_words, kKnown), std::runtime_error);
  EXPECT_THROW(Options(2, &good_words[1], kKnown), std::runtime_error);
}

}  // namespace
}  // namespace plimsoll::demo
