// Two hundred random larger sets of methods, or all there are where they are fewer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/philox.h"
#include "tests/combinations/method_run.h"

namespace plimsoll::testing {
namespace {

constexpr int kSets = 200;
constexpr uint32_t kMostDraws = 20000;

TEST(Combinations, TwoHundredLargerSetsKeepTheirPromises) {
  const TestFolder folder("sets");
  MethodRuns runs(folder);
  const MethodSet methods = runs.available();
  std::set<std::string> seen;
  int checked = 0;
  for (uint32_t draw = 0; draw < kMostDraws && checked < kSets; ++draw) {
    MethodSet set;
    for (uint32_t i = 0; i < methods.size(); ++i) {
      if (philox4x32_10({draw, i, 0, 0}, {17, 5})[0] % 2 == 0) set.push_back(methods[i]);
    }
    if (set.size() < 2 || !set_different_arguments(set) || !seen.insert(words_of(set)).second) continue;
    const std::string why = runs.refusal(set);
    if (!why.empty()) {
      EXPECT_NE(why.find("--"), std::string::npos) << words_of(set) << ": " << why;
      continue;
    }
    runs.check(set);
    ++checked;
  }
  EXPECT_GE(checked, 1);
  RecordProperty("sets", checked);
}

}  // namespace
}  // namespace plimsoll::testing
