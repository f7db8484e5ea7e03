#include "scores.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace plimsoll::demo {
namespace {

using Names = std::vector<std::string>;

TEST(Scores, CountsAccuracyAndMacroF1) {
  // a: 2 TP, 1 FN -> 4/5; b: 1 TP, 1 FP -> 2/3; c never occurs.
  const Scores scores = score(Names{"a", "a", "a", "b"}, Names{"a", "a", "b", "b"});
  EXPECT_DOUBLE_EQ(scores.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(scores.macro_f1, (4.0 / 5 + 2.0 / 3) / 2);
}

TEST(Scores, CountsAClassThatIsOnlyGuessed) {
  const Scores scores = score(Names{"a", "a"}, Names{"a", "z"});
  EXPECT_DOUBLE_EQ(scores.macro_f1, (2.0 / 3 + 0.0) / 2);
}

TEST(Scores, RefusesListsOfDifferentLengths) {
  EXPECT_THROW(score(Names{"a"}, Names{}), std::runtime_error);
  EXPECT_THROW(score(Names{}, Names{}), std::runtime_error);
}

}  // namespace
}  // namespace plimsoll::demo
