#include "scores.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace plimsoll::demo {
namespace {

using Names = std::vector<std::string>;

TEST(Scores, CountsAccuracyAndMacroF1) {
  // F1 = 2 TP / (2 TP + FP + FN). Class a: 2 true positives, 1 false negative, 4/5. Class b: 1 true positive, 1 false positive,
  // 2/3. Macro F1 is their mean.
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
