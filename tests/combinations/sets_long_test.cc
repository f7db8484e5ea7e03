// Trains with two hundred random combinations of two or more memory-saving methods and checks the guarantees that method_run.h lists. The
// combinations are divided among several tests, which can run in parallel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/combinations/method_run.h"

namespace plimsoll::testing {
namespace {

constexpr int kSets = 200, kParts = 20;

class LargerSets : public ::testing::TestWithParam<int> {};

TEST_P(LargerSets, KeepTheirPromises) {
  const int first = GetParam();
  const TestFolder folder(fmt::format("sets_long_{}", first));
  EXPECT_EQ(MethodRuns(folder).check_random_sets(kSets / kParts, first), kSets / kParts);
}
INSTANTIATE_TEST_SUITE_P(From, LargerSets, ::testing::Range(0, kSets, kSets / kParts),
                         [](const auto& part) { return std::to_string(part.param); });

}  // namespace
}  // namespace plimsoll::testing
