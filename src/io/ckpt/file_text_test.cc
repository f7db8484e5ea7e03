#include "io/ckpt/json_text.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(FileText, NamesInMessagesArePrintable) {
  EXPECT_EQ(quoted_name("bert.é"), "'bert.é'");
  EXPECT_EQ(quoted_name("a\nb\x1b[31m"), "'a\\x0ab\\x1b[31m'");
  EXPECT_EQ(quoted_name("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_LT(quoted_name(std::string(100000, 'x')).size(), 130u);
}

TEST(FileText, PositionsCountLinesAndBytes) {
  EXPECT_EQ(text_position("ab\ncd", 0), "line 1, column 1");
  EXPECT_EQ(text_position("ab\ncd", 4), "line 2, column 2");
  EXPECT_EQ(text_position("ab\ncd", 100), "line 2, column 3");
}

}  // namespace
}  // namespace plimsoll
