// Runs a function on several threads at the same time. Kernels use the threads of device/cpu/parallel.h instead.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace plimsoll {

// Calls work(i) on threads 0 to num_threads - 1, where thread 0 is the calling thread, and returns after all calls have returned.
// If the system refuses to create a thread, there are fewer calls. The calls must therefore take their work from a shared counter
// or similar, so that all of it is done with any number of threads. num_threads 0 is treated as 1. Requires: work does not throw.
template <typename Work>
void run_on_threads(size_t num_threads, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(std::max<size_t>(num_threads, 1) - 1);
  try {
    for (size_t i = 1; i < num_threads; ++i) threads.emplace_back([&work, i] { work(i); });
  } catch (const std::system_error&) {
    // The system refused to create another thread. The existing threads, at least the calling one, do all of the work.
  }
  work(size_t{0});
}

// Calls work(i) for i from 0 to count - 1 on this number of threads, including the calling one. If a call throws, no further calls
// are made, and the exception is thrown here after the calls in progress have ended.
template <typename Work>
void for_each_of(size_t count, int num_threads, const Work& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr thrown;
  std::mutex mutex;
  const auto take = [&](size_t /*thread*/) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
        next = count;
      }
    }
  };
  run_on_threads(std::min(static_cast<size_t>(num_threads), count), take);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace plimsoll
