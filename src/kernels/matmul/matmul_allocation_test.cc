// Tests the heap memory that oneDNN allocates while a prepared product runs: it must not exceed the bytes that the plan counts. This
// program replaces malloc and counts every allocation.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "kernels/matmul/matmul.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define PLIMSOLL_COUNTS_ALLOCATIONS 0
#else
#define PLIMSOLL_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

[[maybe_unused]] void count(int64_t change) {
  const int64_t live = live_bytes.fetch_add(change) + change;
  int64_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
}
}  // namespace

#if PLIMSOLL_COUNTS_ALLOCATIONS
// glibc exports the functions of its allocator also under the names that begin with __libc_. The definitions of malloc() and the other
// public functions below replace those of glibc in the whole process and call the functions named __libc_.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

static void* counted(void* memory) {
  if (memory != nullptr) count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}
void* malloc(size_t size) {
  return counted(__libc_malloc(size));
}
void* calloc(size_t count, size_t size) {
  return counted(__libc_calloc(count, size));
}
void* aligned_alloc(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}
void* memalign(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = counted(__libc_memalign(alignment, size));
  return *memory == nullptr ? ENOMEM : 0;
}
void* realloc(void* old, size_t size) {
  const auto before = old == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(old));
  void* memory = __libc_realloc(old, size);
  if (memory != nullptr || size == 0) count(-before);
  return counted(memory);
}
void free(void* memory) {
  if (memory != nullptr) count(-static_cast<int64_t>(malloc_usable_size(memory)));
  __libc_free(memory);
}
}  // extern "C"
#endif

namespace plimsoll {
namespace {

struct Buffer {
  explicit Buffer(int64_t bytes)
      : data(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64))) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data); }
  void* data;
};

// Returns the largest number of bytes that were allocated during run(), in addition to those allocated before it.
int64_t peak_of_run(const MatmulProblem& problem) {
  const int64_t scratch_bytes = matmul_scratch_bytes(problem);
  const Buffer a(problem.m * problem.k * 4), b(problem.k * problem.n * 4), c(problem.m * problem.n * 4),
      bias(problem.n * 4), scratch(scratch_bytes);
  std::fill_n(static_cast<float*>(a.data), problem.m * problem.k, 0.0f);
  std::fill_n(static_cast<float*>(b.data), problem.k * problem.n, 0.0f);
  std::fill_n(static_cast<float*>(bias.data), problem.n, 0.0f);
  MatmulArgs args{.a = {a.data, problem.a},
                  .b = {b.data, problem.b},
                  .bias = {},
                  .c = {c.data, problem.c},
                  .scratch = {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch_bytes)}};
  if (problem.bias == MatmulBias::kRow) args.bias = {bias.data, problem.bias_dtype};
  const auto matmul = prepare_matmul_cpu(problem);
  int64_t peak = 0;
  // The first run is not counted, because it starts oneDNN's threads, whose memory does not belong to a matrix product.
  for (int repeat = 0; repeat < 3; ++repeat) {
    const int64_t before = live_bytes.load();
    peak_bytes.store(before);
    matmul->run(args);
    if (repeat == 0) continue;
    peak = std::max(peak, peak_bytes.load() - before);
    EXPECT_EQ(live_bytes.load(), before) << "a run keeps memory";
  }
  return peak;
}

TEST(MatmulAllocation, StaysWithinThePlannedBytes) {
  if (!PLIMSOLL_COUNTS_ALLOCATIONS) GTEST_SKIP() << "needs glibc's own allocator: not under a sanitizer";
  // Checks first that the replaced functions do count allocations.
  const int64_t before = live_bytes.load();
  const Buffer probe(1 << 20);
  EXPECT_GE(live_bytes.load() - before, 1 << 20);
  int64_t largest = 0;
  for (const auto& [T, N, K] : {std::tuple<int64_t, int64_t, int64_t>{8, 2, 768},
                                {64, 384, 384},
                                {512, 384, 384},
                                {512, 384, 1536},
                                {256, 1536, 384},
                                {1000, 768, 768}}) {
    for (MatmulProblem problem :
         {MatmulProblem{.m = T, .n = N, .k = K, .trans_b = Transpose::kYes, .bias = MatmulBias::kRow},
          MatmulProblem{.m = T, .n = K, .k = N},
          MatmulProblem{
              .m = N, .n = K, .k = T, .trans_a = Transpose::kYes, .writes = MatmulWrites::kOverwriteOrAdd}}) {
      problem.num_threads = num_threads();
      problem.isa = cpu_isa();
      const int64_t peak = peak_of_run(problem);
      EXPECT_LE(peak, matmul_library_bytes(problem)) << T << " " << N << " " << K;
      largest = std::max(largest, peak);
    }
  }
  RecordProperty("largest_peak_bytes", std::to_string(largest));
  EXPECT_GT(largest, 0) << "oneDNN allocates handles: the hook does not see the library's allocations";
}

}  // namespace
}  // namespace plimsoll
