#include "device/cpu/parallel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace plimsoll {
namespace {

constexpr int64_t kCount = 1000;

std::vector<int> once_each() {
  return std::vector<int>(static_cast<size_t>(kCount), 1);
}

TEST(ParallelFor, CallsEveryIndexOnce) {
  std::vector<int> calls(static_cast<size_t>(kCount));
  parallel_for(kCount, [&](int64_t index, int thread) {
    EXPECT_GE(thread, 0);
    EXPECT_LT(thread, num_threads());
    ++calls[static_cast<size_t>(index)];
  });
  EXPECT_EQ(calls, once_each());
}

TEST(ParallelFor, TakesABodyThatTheCallerKeeps) {
  std::vector<int> calls(static_cast<size_t>(kCount));
  auto body = [&](int64_t index, int) { ++calls[static_cast<size_t>(index)]; };
  parallel_for(kCount, body);
  EXPECT_EQ(calls, once_each());
  parallel_for(kCount, std::as_const(body));
  EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(kCount), 2));
}

TEST(ParallelFor, CallsTheBodyItselfNotACopy) {
  struct Counter {
    std::vector<int> calls = std::vector<int>(static_cast<size_t>(kCount));
    void operator()(int64_t index, int) { ++calls[static_cast<size_t>(index)]; }
  };
  Counter counter;
  parallel_for(kCount, counter);
  EXPECT_EQ(counter.calls, once_each());
}

TEST(ParallelFor, OfNothingCallsNothing) {
  parallel_for(0, [](int64_t, int) { FAIL(); });
}

#ifdef _OPENMP
// Simulates the variables OMP_DYNAMIC=true and OMP_MAX_ACTIVE_LEVELS=0. oneDNN computes a wrong matrix product if it gets fewer threads
// than it has divided the matrices among.
TEST(ParallelFor, SetNumThreadsOverridesWhatMakesOpenMpStartFewerThreads) {
  const int before = num_threads();
  omp_set_dynamic(1);
  omp_set_max_active_levels(0);
  set_num_threads(3);
  int started = 0;
#pragma omp parallel
  {
#pragma omp single
    started = omp_get_num_threads();
  }
  set_num_threads(before);
  EXPECT_EQ(started, 3);
  EXPECT_GE(thread_limit(), 3);
}
#endif

}  // namespace
}  // namespace plimsoll
