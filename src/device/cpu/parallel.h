// The only way in which kernels use several CPU threads. It uses OpenMP, or std::thread in builds for ThreadSanitizer, which does not
// understand OpenMP's barriers.
//
// Work is divided by index: which thread computes an index may differ between runs, but the result for the index must not depend on it. A
// kernel with sums across indices combines partial results in the order of the indices.
#pragma once

#include <cstdint>
#include <type_traits>

namespace plimsoll {

// The number of threads that parallel_for uses. The program calls set_num_threads() once before any kernel. It also overrides the variables
// OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS, which can make OpenMP start fewer threads. Requires: 1 <= n <= thread_limit().
int num_threads();
void set_num_threads(int n);

// Returns the largest number of threads that OpenMP starts for one loop, which the variable OMP_THREAD_LIMIT sets. No run may ask
// for more: a library that divides its work among more threads than OpenMP starts would leave a part of its result unwritten.
int thread_limit();

// Flushes denormals to zero (FTZ and DAZ) on the calling thread and on every thread of parallel_for.
void flush_denormals_on_all_threads();

namespace internal {
void parallel_for_erased(int64_t count, void (*body)(void* context, int64_t index, int thread),
                         void* context);
}

// Calls body(index, thread) once for each index in [0, count); thread is in [0, num_threads()). Indices are
// assigned one at a time in increasing order. Blocks until all calls have returned. Requires: body does not
// throw and does not call parallel_for.
template <typename Body>
void parallel_for(int64_t count, Body&& body) {
  // If the caller passes a named lambda, Body is deduced as a reference type, so the reference is removed.
  using Callable = std::remove_reference_t<Body>;
  internal::parallel_for_erased(
      count,
      [](void* context, int64_t index, int thread) { (*static_cast<Callable*>(context))(index, thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace plimsoll
