#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonDocument, CountsListsAndObjectsThatAreOpenAtATime) {
  EXPECT_FALSE(is_nested_deeper("", 0));
  EXPECT_FALSE(is_nested_deeper("3", 0));
  EXPECT_TRUE(is_nested_deeper("{}", 0));
  EXPECT_FALSE(is_nested_deeper("[{}, {}, []]", 2));
  EXPECT_TRUE(is_nested_deeper("[{\"a\": []}]", 2));
  // Brackets inside a string must not be counted, and an escaped quote must not end the string.
  EXPECT_FALSE(is_nested_deeper("[\"[[[[\", \"\\\"[[[\", \"\\\\\"]", 1));
  EXPECT_TRUE(is_nested_deeper("[\"\\\\\", [", 1));
  // A text that ends inside a string or an escape is not valid JSON. It must not be read beyond its end.
  EXPECT_FALSE(is_nested_deeper("[\"[[\\", 1));
  for (const int depth : {kMaxJsonDepth, 100000}) {
    EXPECT_FALSE(is_nested_deeper(nested(depth), depth));
    EXPECT_TRUE(is_nested_deeper(nested(depth + 1), depth));
  }
}

TEST(JsonDocument, RefusesWhatRecursionCouldNotTake) {
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "a.json").is_array());
  for (const int depth : {kMaxJsonDepth + 2, 100000}) {
    try {
      parse_json(nested(depth), "a.json");
      ADD_FAILURE() << depth;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      EXPECT_NE(std::string(error.what()).find("nested deeper than 64 levels"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plimsoll
