// Checks the first 12 of the random sets of methods that sets_long_test.cc checks, so that the quick tests include some.
#include <gtest/gtest.h>

#include "tests/combinations/method_run.h"

namespace plimsoll::testing {
namespace {

TEST(Combinations, TheFirstLargerSetsKeepTheirPromises) {
  const TestFolder folder("sets");
  EXPECT_EQ(MethodRuns(folder).check_random_sets(12), 12);
}

}  // namespace
}  // namespace plimsoll::testing
