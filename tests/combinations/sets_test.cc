// The first of the random larger sets of methods of sets_long_test.cc, which run quickly.
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
