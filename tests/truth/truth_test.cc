// The plan against the truth, in twelve runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/truth/random_run.h"

namespace plimsoll::testing {
namespace {

TEST(Truth, TwelveRunsHoldWhatWasPlanned) {
  const TestFolder folder("truth");
  int64_t most_beside = 0;
  for (uint64_t number = 0; number < 12; ++number) {
    const std::vector<std::string> words = random_run(folder, 1, number);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    SCOPED_TRACE(line);
    const MemoryTruth truth = memory_of(folder, words);
    expect_truth(truth);
    if (truth.ok()) most_beside = std::max(most_beside, truth.measured_bytes - truth.arena_bytes);
  }
  RecordProperty("most_bytes_beside_the_arena", std::to_string(most_beside));
}

}  // namespace
}  // namespace plimsoll::testing
