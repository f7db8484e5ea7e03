#include "graph/ir/tensor_split.h"

#include <gtest/gtest.h>

#include <utility>

namespace plimsoll {
namespace {

using Runs = std::vector<std::pair<int64_t, int64_t>>;

Runs runs_of(const TensorSplit& split, int64_t rank, int64_t begin, int64_t end) {
  Runs runs;
  split.for_each_run(rank, begin, end,
                     [&](int64_t first, int64_t count) { runs.emplace_back(first, count); });
  return runs;
}

// A fused weight of queries, keys and values: 4 heads of queries and 2 each of keys and of values; a head is one row of 3 columns.
TEST(TensorSplit, DividesRowsPartByPart) {
  const TensorSplit split{.ranks = 2, .parts = {12, 6, 6}, .whole = Shape{8, 3}};
  EXPECT_EQ(runs_of(split, 0, 0, 24), (Runs{{0, 6}, {12, 3}, {18, 3}}));
  EXPECT_EQ(runs_of(split, 1, 0, 24), (Runs{{6, 6}, {15, 3}, {21, 3}}));
  EXPECT_EQ(runs_of(split, 1, 8, 16), (Runs{{8, 4}, {15, 1}}));
}

TEST(TensorSplit, DividesColumns) {
  const TensorSplit split{.ranks = 2, .parts = {4}, .whole = Shape{3, 4}};
  EXPECT_EQ(runs_of(split, 1, 0, 12), (Runs{{2, 2}, {6, 2}, {10, 2}}));
  EXPECT_EQ(runs_of(split, 0, 5, 9), (Runs{{5, 1}, {8, 1}}));
}

// Every element of the whole value belongs to one rank, which stores its elements in the order of the whole value.
TEST(TensorSplit, NumbersTheElementsOfEachRank) {
  for (const TensorSplit& split :
       {TensorSplit{.ranks = 2, .parts = {12, 6, 6}, .whole = Shape{8, 3}},
        TensorSplit{.ranks = 4, .parts = {8}, .whole = Shape{3, 8}},
        TensorSplit{.ranks = 3, .parts = {6, 3}, .whole = Shape{9}}, TensorSplit::of_rows(Shape{12, 3}, 4)}) {
    std::vector<int> owners(static_cast<size_t>(split.whole_elements()), 0);
    for (int64_t rank = 0; rank < split.ranks; ++rank) {
      int64_t count = 0;
      split.for_each_run(rank, 0, split.whole_elements(), [&](int64_t first, int64_t run) {
        for (int64_t i = first; i < first + run; ++i) {
          EXPECT_EQ(split.elements_before(i, rank), count++);
          ++owners[static_cast<size_t>(i)];
        }
      });
      EXPECT_EQ(count, split.elements());
      EXPECT_EQ(split.elements_before(split.whole_elements(), rank), count);
    }
    EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
  }
}

// If the number of rows is not divisible by the number of ranks, all ranks have the same number of rows, and the rows of the last ranks are
// partly or entirely padding. flattened(2) has two elements for each element of the value, and its padding doubles too.
TEST(TensorSplit, PadsRowsThatTheRanksDoNotDivide) {
  const TensorSplit two = TensorSplit::of_rows(Shape{37, 2}, 2), four = TensorSplit::of_rows(Shape{37}, 4);
  EXPECT_EQ(TensorSplit::rows_of_rank(37, 2), 24);
  EXPECT_EQ(TensorSplit::rows_of_rank(50257, 2), 25136);
  EXPECT_EQ(two, (TensorSplit{.ranks = 2, .parts = {96}, .whole = Shape{37, 2}}));
  EXPECT_EQ(two.elements(), 48);
  EXPECT_EQ(runs_of(two, 0, 0, 74), (Runs{{0, 48}}));
  EXPECT_EQ(runs_of(two, 1, 0, 74), (Runs{{48, 26}}));
  EXPECT_EQ(runs_of(two, 1, 40, 50), (Runs{{48, 2}}));
  EXPECT_EQ(two.elements_before(74, 1), 26);
  EXPECT_TRUE(two.has_padding());
  EXPECT_EQ(four.elements(), 16);
  EXPECT_EQ(runs_of(four, 2, 0, 37), (Runs{{32, 5}}));
  EXPECT_EQ(runs_of(four, 3, 0, 37), Runs{});
  EXPECT_EQ(four.elements_before(37, 3), 0);
  EXPECT_FALSE(TensorSplit::of_rows(Shape{36}, 4).has_padding());
  EXPECT_EQ(two.flattened(2).elements(), 96);
}

TEST(TensorSplit, Flattens) {
  const TensorSplit split{.ranks = 2, .parts = {4}, .whole = Shape{3, 4}};
  EXPECT_EQ(split.flattened(2), (TensorSplit{.ranks = 2, .parts = {8}, .whole = Shape{24}}));
}

}  // namespace
}  // namespace plimsoll
