// Compares the planned memory of twelve random runs with their measured memory.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/truth/random_run.h"

namespace plimsoll::testing {
namespace {

TEST(Truth, TwelveRunsHoldWhatWasPlanned) {
  const TestFolder folder("truth");
  int64_t most_beside = 0;
  int num_draws = 0;
  for (uint64_t number = 0; number < 12; ++number) {
    const RandomRun run = random_run(folder, 1, number, device_of_tests());
    SCOPED_TRACE(fmt::format("{}", fmt::join(run.words, " ")));
    const MemoryTruth truth = memory_of(folder, run.words);
    expect_truth(truth);
    num_draws += run.num_draws;
    if (truth.ok()) most_beside = std::max(most_beside, truth.measured_bytes - truth.arena_bytes);
  }
  EXPECT_LE(num_draws, 3 * 12) << "most draws are refused";
  RecordProperty("most_bytes_beside_the_arena", std::to_string(most_beside));
}

}  // namespace
}  // namespace plimsoll::testing
