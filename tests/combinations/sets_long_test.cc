// Two hundred random larger sets of methods, in one process.
#include <gtest/gtest.h>

#include "tests/combinations/method_run.h"

namespace plimsoll::testing {
namespace {

TEST(Combinations, TwoHundredLargerSetsKeepTheirPromises) {
  const TestFolder folder("sets_long");
  EXPECT_EQ(MethodRuns(folder).check_random_sets(200), 200);
}

}  // namespace
}  // namespace plimsoll::testing
