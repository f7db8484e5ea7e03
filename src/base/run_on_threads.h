// Work that several threads share, for the short time of one call. Not for kernels, whose threads are those
// of device/cpu/parallel.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace plimsoll {

// Calls work(i) on threads 0 to num_threads - 1, of which 0 is the caller's, and returns when all have ended.
// Where the system refuses a thread, fewer are called: whatever there is to do has to be shared out while it
// is done (by a counter, say), so that those that there are do all of it. 0 threads are as 1. Requires: work
// does not throw.
template <typename Work>
void run_on_threads(size_t num_threads, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(std::max<size_t>(num_threads, 1) - 1);
  try {
    for (size_t i = 1; i < num_threads; ++i) threads.emplace_back([&work, i] { work(i); });
  } catch (const std::system_error&) {
    // At a limit of the system's; the caller's own thread is always there.
  }
  work(size_t{0});
}

}  // namespace plimsoll
