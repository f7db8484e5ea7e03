// This file is linked into every test that needs a GPU. After each test suite that compared anything, it prints a
// line with the largest error as a fraction of its limit. scripts/test_gpu.sh collects these lines.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/compare.h"

namespace plimsoll::test {
namespace {

class SuiteFigures : public ::testing::EmptyTestEventListener {
 public:
  void OnTestSuiteStart(const ::testing::TestSuite&) override { take_compared(); }
  void OnTestSuiteEnd(const ::testing::TestSuite& suite) override {
    const Compared figures = take_compared();
    if (figures.num_within + figures.num_bits == 0) return;
    std::printf("figure: %s: worst error %.2f of its bound in %lld comparisons, %lld more bit for bit\n",
                suite.name(), figures.worst_share, static_cast<long long>(figures.num_within),
                static_cast<long long>(figures.num_bits));
    std::fflush(stdout);
  }
};

// GoogleTest takes ownership of the listener.
[[maybe_unused]] const bool is_listening = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SuiteFigures);
  return true;
}();

}  // namespace
}  // namespace plimsoll::test
