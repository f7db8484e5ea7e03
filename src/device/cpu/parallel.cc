#include "device/cpu/parallel.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace plimsoll {
namespace {
std::atomic<int> configured_threads{0};

int default_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
#endif
}

void flush_denormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _mm_setcsr(_mm_getcsr() | 0x0040u);  // sets the bit DAZ (denormals are zero)
}
}  // namespace

int num_threads() {
  const int n = configured_threads.load(std::memory_order_relaxed);
  return n > 0 ? n : default_threads();
}

void set_num_threads(int n) {
  configured_threads.store(n, std::memory_order_relaxed);
#ifdef _OPENMP
  omp_set_dynamic(0);
  omp_set_max_active_levels(std::max(1, omp_get_max_active_levels()));
  omp_set_num_threads(n);
#endif
}

int thread_limit() {
#ifdef _OPENMP
  return omp_get_thread_limit();
#else
  return std::numeric_limits<int>::max();
#endif
}

void flush_denormals_on_all_threads() {
  flush_denormals();
#ifdef _OPENMP
#pragma omp parallel num_threads(num_threads())
  { flush_denormals(); }
#endif
}

namespace internal {

void parallel_for_erased(int64_t count, void (*body)(void* context, int64_t index, int thread),
                         void* context) {
  const int threads = num_threads();
  if (count <= 1 || threads == 1) {
    for (int64_t i = 0; i < count; ++i) body(context, i, 0);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) body(context, i, omp_get_thread_num());
#else
  std::atomic<int64_t> next{0};
  const auto work = [&](int thread) {
    flush_denormals();
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(context, i, thread);
  };
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(work, t);
  work(0);
  for (std::thread& t : team) t.join();
#endif
}

}  // namespace internal
}  // namespace plimsoll
