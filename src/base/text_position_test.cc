#include "base/text_position.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

std::string place_of(std::string_view text, size_t offset) {
  const TextPosition position = position_in(text, offset);
  return std::to_string(position.line) + ":" + std::to_string(position.column);
}

TEST(PositionInText, CountsLinesAndCodePointsFromOne) {
  EXPECT_EQ(place_of("", 0), "1:1");
  EXPECT_EQ(place_of("ab\ncd", 0), "1:1");
  EXPECT_EQ(place_of("ab\ncd", 2), "1:3");
  EXPECT_EQ(place_of("ab\ncd", 4), "2:2");
  EXPECT_EQ(place_of("ab\ncd", 100), "2:3");
  EXPECT_EQ(place_of("\xc3\xa9\xe4\xb8\xad!", 5), "1:3");
}

TEST(PositionInText, ShowsTheLineUpToAByte) {
  EXPECT_EQ(line_until("", 0), "''");
  EXPECT_EQ(line_until("a\n  bcd", 5), "'bc'");
  EXPECT_EQ(line_until("a\n  bcd\n", 7), "'bcd'");
  EXPECT_EQ(line_until(std::string(100, 'x'), 99), "'..." + std::string(40, 'x') + "'");
  EXPECT_EQ(line_until("a\x1b[2J\xff", 5), "'a\\x1b[2J\\xff'");
}

}  // namespace
}  // namespace plimsoll
