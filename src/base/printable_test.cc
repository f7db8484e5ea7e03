#include "base/printable.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Printable, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("plain na\xc3\xafve \xe6\x9d\xb1"), "plain na\xc3\xafve \xe6\x9d\xb1");
  EXPECT_EQ(printable("a\x1b[31mb\r\nc\x7f"), "a\\x1b[31mb\\x0d\\x0ac\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  // The control characters U+0080 to U+009F, of which U+009B begins an escape sequence on some terminals.
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
}

TEST(Printable, QuotesNames) {
  EXPECT_EQ(quoted_name("bert.\xc3\xa9"), "'bert.\xc3\xa9'");
  EXPECT_EQ(quoted_name("a\nb\x1b[31m"), "'a\\x0ab\\x1b[31m'");
  EXPECT_EQ(quoted_name("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_LT(quoted_name(std::string(100000, 'x')).size(), 130u);
}

TEST(Printable, CutsLongTexts) {
  EXPECT_EQ(printable(std::string(200, 'x')), std::string(121, 'x') + "...");
  EXPECT_EQ(printable("abcdef", 2), "abc...");
  EXPECT_EQ(printable("abc", 2), "abc");
}

}  // namespace
}  // namespace plimsoll
