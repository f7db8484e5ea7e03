#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <vector>

#include "base/philox.h"

namespace plimsoll {
namespace {

using Numbers = SmallVector<int, 3>;

std::vector<int> all_of(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

// Applies the same random changes to a SmallVector and to a std::vector, with sizes below and above the number of elements that
// the object itself can store. Both must always be equal.
TEST(SmallVector, IsAStdVector) {
  const RandomSite site{.seed = 1, .step = 0, .site = 1};
  uint64_t drawn = 0;
  const auto draw = [&](size_t limit) { return static_cast<size_t>(philox_element(site, drawn++)) % limit; };
  for (int round = 0; round < 200; ++round) {
    Numbers numbers;
    std::vector<int> expected;
    for (int change = 0; change < 30; ++change) {
      const int value = static_cast<int>(draw(1000));
      const auto at = static_cast<std::ptrdiff_t>(draw(expected.size() + 1));
      switch (draw(7)) {
        case 0:
        case 1:
          numbers.push_back(value);
          expected.push_back(value);
          break;
        case 2:
          numbers.insert(numbers.begin() + at, value);
          expected.insert(expected.begin() + at, value);
          break;
        case 3: {
          std::vector<int> more(draw(4));
          std::iota(more.begin(), more.end(), value);
          numbers.insert(numbers.begin() + at, more.begin(), more.end());
          expected.insert(expected.begin() + at, more.begin(), more.end());
          break;
        }
        case 4:
          if (at == std::ssize(expected)) break;
          numbers.erase(numbers.begin() + at);
          expected.erase(expected.begin() + at);
          break;
        case 5:
          numbers.resize(static_cast<size_t>(at), value);
          expected.resize(static_cast<size_t>(at), value);
          break;
        default:
          if (expected.empty()) break;
          numbers.push_back(numbers.front());
          expected.push_back(expected.front());
      }
      ASSERT_EQ(all_of(numbers), expected);
      ASSERT_EQ(numbers.size(), expected.size());
    }
    const Numbers copy = numbers;
    Numbers moved = std::move(numbers);
    EXPECT_EQ(copy, moved);
    EXPECT_EQ(all_of(moved), expected);
    moved = copy;
    EXPECT_EQ(all_of(moved), expected);
  }
}

TEST(SmallVector, ConvertsFromListsAndToSpans) {
  const Numbers few{1, 2};
  const Numbers many = std::vector<int>{1, 2, 3, 4, 5};
  EXPECT_NE(few, many);
  EXPECT_EQ(std::span<const int>(many).size(), 5u);
  EXPECT_EQ(all_of(Numbers(2, 7)), (std::vector<int>{7, 7}));
  Numbers moved_from{1, 2, 3, 4};
  const Numbers taken = std::move(moved_from);
  EXPECT_EQ(taken.size(), 4u);
  EXPECT_TRUE(moved_from.empty()) << "a list that was moved from can be used again";  // NOLINT
  moved_from.push_back(9);
  EXPECT_EQ(all_of(moved_from), std::vector<int>{9});
}

}  // namespace
}  // namespace plimsoll
