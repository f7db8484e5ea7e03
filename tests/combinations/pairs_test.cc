// Tests every method alone and every pair of methods, on the CPU and, in the GPU variant, on a GPU.
#include <gtest/gtest.h>

#include "tests/combinations/method_run.h"

namespace plimsoll::testing {
namespace {

TEST(Combinations, EveryMethodAloneKeepsItsPromises) {
  const TestFolder folder("methods");
  MethodRuns runs(folder);
  std::vector<std::string> refused;
  const MethodSet methods = runs.available(&refused);
  for (const std::string& line : refused) std::cout << "not here: " << line << "\n";
  ASSERT_GE(methods.size(), 2u);
  for (const Method* method : methods) runs.check({method});
}

TEST(Combinations, EveryPairKeepsItsPromisesOrIsRefusedByName) {
  const TestFolder folder("pairs");
  MethodRuns runs(folder);
  const MethodSet methods = runs.available();
  int checked = 0;
  for (size_t i = 0; i < methods.size(); ++i) {
    for (size_t j = i + 1; j < methods.size(); ++j) {
      const MethodSet pair{methods[i], methods[j]};
      if (!set_different_arguments(pair)) continue;
      const std::string why = runs.refusal(pair);
      if (!why.empty()) {
        // A refusal must name the conflicting argument.
        EXPECT_NE(why.find("--"), std::string::npos) << words_of(pair) << ": " << why;
        continue;
      }
      runs.check(pair);
      ++checked;
    }
  }
  EXPECT_GE(checked, 1);
}

}  // namespace
}  // namespace plimsoll::testing
