#include "base/run_on_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <set>
#include <vector>

namespace plimsoll {
namespace {

TEST(RunOnThreads, CallsEachNumberOnceAndZeroOnTheCallersThread) {
  for (const size_t num_threads : {size_t{1}, size_t{2}, size_t{7}}) {
    std::vector<std::atomic<int>> calls(num_threads);
    std::vector<std::thread::id> ids(num_threads);
    run_on_threads(num_threads, [&](size_t i) {
      ++calls[i];
      ids[i] = std::this_thread::get_id();
    });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1) << num_threads;
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), num_threads) << "a thread for each";
  }
}

TEST(RunOnThreads, NoThreadsAreAsOne) {
  int calls = 0;
  run_on_threads(0, [&](size_t i) { calls += static_cast<int>(i) + 1; });
  EXPECT_EQ(calls, 1);
}

// Limits the address space so that almost no further thread stack fits: a stack takes 8 MiB of addresses.
void limit_addresses() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{12} << 20);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(3);
}

// Asks for 64 threads, whose stacks would need 512 MiB of addresses, more than the limit. Exit code 0 means that fewer than 64 threads
// did all 1000 pieces of work.
[[noreturn]] void share_out_work_with_few_threads() {
  limit_addresses();
  std::atomic<int> next{0};
  std::atomic<int> done{0};
  std::atomic<int> num_threads{0};
  run_on_threads(64, [&](size_t) {
    ++num_threads;
    while (next++ < 1000) ++done;
  });
  std::_Exit(done == 1000 && num_threads < 64 ? 0 : 4);
}

TEST(RunOnThreads, TheThreadsThatThereAreDoTheWorkOfThoseThatAreRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(share_out_work_with_few_threads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plimsoll
