// Checks two hundred random sets of two or more methods, in parts that can run in parallel.
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
