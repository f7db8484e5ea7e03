#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(EditDistance, CountsTypingErrors) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("train", "trian"), 1u);
  // Optimal string alignment does not edit a pair again after exchanging it. The Damerau-Levenshtein distance does, and would be
  // 2 here.
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);
}

TEST(EditDistance, CharactersBeyondAFreeEndAreNotCounted) {
  EXPECT_EQ(edit_distance("bias", "bert.bias"), 5u);
  EXPECT_EQ(edit_distance("bias", "bert.bias", {.begin = true}), 0u);
  EXPECT_EQ(edit_distance("bert", "bert.bias", {.end = true}), 0u);
  EXPECT_EQ(edit_distance("t.b", "bert.bias", {.begin = true, .end = true}), 0u);
  EXPECT_EQ(edit_distance("t.v", "bert.bias", {.begin = true, .end = true}), 1u);
  EXPECT_EQ(edit_distance("", "bert.bias", {.end = true}), 0u);
}

}  // namespace
}  // namespace plimsoll
