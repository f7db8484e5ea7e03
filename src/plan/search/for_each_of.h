// Shares a number of calls among threads. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>

#include "base/run_on_threads.h"

namespace plimsoll {

// Calls work(i) for i from 0 to count - 1 on this number of threads, including the calling one. An
// exception of a call is thrown here after all calls have ended.
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
