#include "plan/search/recompute_solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

struct RandomCase {
  std::vector<std::vector<RecomputeOption>> menus;
  std::vector<RecomputeBlock> blocks;
  int64_t head_bytes = 0;
  int64_t limit = 0;
};

RandomCase random_case(uint64_t seed) {
  CaseRandom random(seed);
  RandomCase test;
  const int64_t num_blocks = random.between(1, 6);
  for (int64_t i = 0; i < num_blocks; ++i) {
    std::vector<RecomputeOption> menu;
    const int64_t num_options = random.between(1, 4);
    for (int64_t k = 0; k < num_options; ++k) {
      const int64_t kept = random.between(0, 20);
      menu.push_back({.kept_bytes = kept,
                      .working_bytes = kept + random.between(0, 15),
                      .ms = static_cast<double>(random.between(0, 30))});
    }
    test.menus.push_back(std::move(menu));
  }
  for (int64_t i = 0; i < num_blocks; ++i) {
    test.blocks.push_back(
        {.options = test.menus[static_cast<size_t>(i)], .later_bytes = (num_blocks - i) * 3});
  }
  test.head_bytes = random.between(0, 10);
  test.limit = random.between(10, 90);
  return test;
}

// Returns the least recomputation time over all choices, found by exhaustive search, or nothing if no choice is allowed.
std::optional<double> least_ms(const RandomCase& test, size_t at = 0, int64_t kept = 0) {
  if (at == test.blocks.size()) {
    return kept + test.head_bytes <= test.limit ? std::optional(0.0) : std::nullopt;
  }
  std::optional<double> least;
  for (const RecomputeOption& option : test.blocks[at].options) {
    if (kept + option.working_bytes + test.blocks[at].later_bytes > test.limit) continue;
    const std::optional<double> rest = least_ms(test, at + 1, kept + option.kept_bytes);
    if (rest && (!least || *rest + option.ms < *least)) least = *rest + option.ms;
  }
  return least;
}

TEST(RecomputeSolver, IsAsFastAsTheBestOfAllChoices) {
  int solved = 0;
  int impossible = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const RandomCase test = random_case(seed);
    const std::optional<double> best = least_ms(test);
    const std::optional<RecomputeSolution> found = choose_options(test.blocks, test.head_bytes, test.limit);
    ASSERT_EQ(found.has_value(), best.has_value()) << "seed " << seed;
    if (!found) {
      ++impossible;
      continue;
    }
    ++solved;
    EXPECT_EQ(found->ms, *best) << "seed " << seed;
    EXPECT_LE(found->peak_bytes, test.limit) << "seed " << seed;
    double ms = 0;
    for (size_t i = 0; i < test.blocks.size(); ++i) ms += test.blocks[i].options[found->options[i]].ms;
    EXPECT_EQ(ms, found->ms) << "seed " << seed;
  }
  EXPECT_GT(solved, 500);
  EXPECT_GT(impossible, 500);
}

// During the backward pass, the gradients of finished blocks remain live, and the values that those blocks kept are freed. Here the
// gradients are larger than the kept values, so late blocks can keep values that early blocks cannot.
TEST(RecomputeSolver, LateBlocksKeepWhatTheEarlyOnesCannot) {
  const std::vector<RecomputeOption> menu{{.kept_bytes = 10, .working_bytes = 12, .ms = 0},
                                          {.kept_bytes = 1, .working_bytes = 12, .ms = 5}};
  std::vector<RecomputeBlock> blocks;
  for (int64_t i = 0; i < 4; ++i) blocks.push_back({.options = menu, .later_bytes = (3 - i) * 20});
  const std::optional<RecomputeSolution> found = choose_options(blocks, 0, 72);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ms, 0) << "72 bytes are what the first block needs in any case";
  EXPECT_FALSE(choose_options(blocks, 0, 71).has_value());
}

TEST(RecomputeSolver, LargeModelsAreSolvedInTime) {
  std::vector<RecomputeOption> menu;
  CaseRandom random(7);
  for (int i = 0; i < 16; ++i) {
    const int64_t kept = random.between(1'000'000, 400'000'000);
    menu.push_back({kept, kept + 300'000'000, 4e8 / static_cast<double>(kept)});
  }
  const std::vector<RecomputeBlock> blocks(96, RecomputeBlock{.options = menu});
  const std::optional<RecomputeSolution> found = choose_options(blocks, 0, 12'000'000'000);
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->peak_bytes, 12'000'000'000);
}

TEST(RecomputeSolver, OnlyBeatenOptionsAreDropped) {
  const std::vector<RecomputeOption> options{{10, 20, 1}, {10, 20, 2}, {5, 20, 3}, {10, 15, 3},
                                             {5, 15, 3},  {1, 30, 9},  {10, 20, 1}};
  EXPECT_EQ(pareto_front(options), (std::vector<size_t>{0, 4, 5}));
}

}  // namespace
}  // namespace plimsoll
