// The one seam through which kernels use several CPU threads. OpenMP normally; std::thread when built for
// ThreadSanitizer, which does not understand OpenMP's barriers.
//
// Work is split by index, never by time: which thread runs an index may differ between runs, what an index
// computes may not. A kernel whose sums cross indices combines partial results in index order.
#pragma once

#include <cstdint>
#include <type_traits>

namespace plimsoll {

// Threads that parallel_for uses. set_num_threads is called once by the program before any kernel (Requires:
// n >= 1).
int num_threads();
void set_num_threads(int n);

// Flushes denormals to zero (FTZ and DAZ) on the calling thread and on every thread of parallel_for.
void flush_denormals_on_all_threads();

namespace internal {
void parallel_for_erased(int64_t count, void (*body)(void* context, int64_t index, int thread),
                         void* context);
}

// Calls body(index, thread) once for each index in [0, count); thread is in [0, num_threads()). Indices are
// handed out one at a time in increasing order. Requires: body does not throw and does not call parallel_for.
// Blocks until all are done.
template <typename Body>
void parallel_for(int64_t count, Body&& body) {
  // Body is a reference where the caller keeps the lambda in a variable.
  using Callable = std::remove_reference_t<Body>;
  internal::parallel_for_erased(
      count,
      [](void* context, int64_t index, int thread) { (*static_cast<Callable*>(context))(index, thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace plimsoll
