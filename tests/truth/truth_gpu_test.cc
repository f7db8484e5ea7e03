// Compares plans with the memory that NVML measures on the first GPU, in random runs with every precision,
// every optimizer and every method. Each run is a process of its own. No other process may allocate or free
// memory on the card meanwhile.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/nvml.h"
#include "tests/truth/random_run.h"

namespace plimsoll::testing {
namespace {

constexpr uint64_t kRuns = 24;
constexpr uint64_t kSeed = 3;

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

TEST(TruthGpu, RandomRunsHoldWhatWasPlanned) {
  std::string why;
  ASSERT_FALSE(visible_cuda_devices(&why).empty()) << why;
  ASSERT_TRUE(has_nvml(&why)) << why;
  const TestFolder folder("truth_gpu");
  int num_draws = 0;
  uint64_t num_runs = 0;
  int64_t least_below = std::numeric_limits<int64_t>::max();
  int64_t most_below = std::numeric_limits<int64_t>::min();
  for (uint64_t number = 0; number < kRuns; ++number) {
    const RandomRun run = random_run(folder, kSeed, number, RunsOn::kGpu);
    SCOPED_TRACE(fmt::format("run {}: {}", number, fmt::join(run.words, " ")));
    const MemoryTruth truth = memory_of(folder, run.words);
    expect_truth(truth);
    num_draws += run.num_draws;
    std::printf("figure: truth %llu: %s; %s\n", static_cast<unsigned long long>(number),
                describe_held(truth).c_str(), run.summary.c_str());
    std::fflush(stdout);
    if (!truth.held) continue;
    const int64_t below = truth.planned_total_bytes - truth.held->most_bytes;
    least_below = std::min(least_below, below);
    most_below = std::max(most_below, below);
    ++num_runs;
  }
  EXPECT_EQ(num_runs, kRuns);
  EXPECT_LE(num_draws, 3 * static_cast<int>(kRuns)) << "most draws are refused";
  std::printf("figure: truth: %llu runs (%d draws) held %.1f to %.1f MiB less than planned\n",
              static_cast<unsigned long long>(num_runs), num_draws, mib(least_below), mib(most_below));
}

}  // namespace
}  // namespace plimsoll::testing
