// Tests that training steps allocate no memory of tensor size on the heap, because all tensors are in the
// arena. The test records all heap allocations of this process while steps run. Those of oneDNN, whose memory
// the plan lists, and of NVIDIA's driver, which is not part of this program, are recorded separately. On a GPU
// the free memory of the card must not change either.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"
#include "device/cuda/cuda_device.h"
#include "kernels/matmul/matmul.h"
#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace {

std::atomic<bool> watching{false};
std::atomic<size_t> largest{0};
std::atomic<size_t> largest_of_library{0};
std::atomic<size_t> calls{0};

bool is_in_library(const void* code) {
  Dl_info info;
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view file(info.dli_fname);
  for (const char* name : {"libdnnl", "libcuda.so", "libcublas", "libnvidia"}) {
    if (file.find(name) != std::string_view::npos) return true;
  }
  return false;
}

// Records an allocation of this size. `caller` is the address of the code that called the allocator.
void note(size_t bytes, const void* caller) {
  if (!watching.load(std::memory_order_relaxed)) return;
  calls.fetch_add(1, std::memory_order_relaxed);
  std::atomic<size_t>& most = is_in_library(caller) ? largest_of_library : largest;
  size_t seen = most.load(std::memory_order_relaxed);
  while (bytes > seen && !most.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
}

}  // namespace

// Replacements of the C allocator for the whole program, which libraries use too.
// NOLINTBEGIN(bugprone-reserved-identifier): glibc's own names
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)
void* malloc(size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note(count * bytes, __builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  note(bytes, __builtin_return_address(0));
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? 12 : 0;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
}

namespace plimsoll {
namespace {

TEST(NoAllocation, StepsTakeNothingOfATensorsSize) {
  const testing::TestFolder folder("no_allocation");
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.gradient_accumulation_steps = 1;
  arguments.per_device_train_batch_size = 11;
  Trainer trainer(arguments);
  trainer.start();
  Batch batch = trainer.next_batch();
  std::optional<CudaDevice> card;
  if (std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr) card.emplace(0);
  // In the first step with a batch size, the run prepares its kernel calls. On a GPU, the second step captures them as a CUDA graph.
  for (int step = 0; step < 3; ++step) {
    trainer.forward_backward(batch);
    trainer.update(1e-4);
  }
  const int64_t free_before = card ? card->free_bytes() : 0;
  watching = true;
  for (int step = 0; step < 5; ++step) {
    trainer.forward_backward(batch);
    trainer.update(1e-4);
  }
  watching = false;
  if (card) {
    EXPECT_EQ(card->free_bytes(), free_before) << "bytes that are free on the card: a step took some or gave "
                                                  "some back, or somebody else did meanwhile";
  }
  // The limit is between the smallest tensor and other allocations: the smallest activation has 132 tokens x
  // 16 x 4 bytes = 8448 bytes, while queues and handles of libraries need less than 4 KiB.
  EXPECT_LT(largest.load(), 4096u) << calls.load() << " calls";
  if (card) {
    std::printf("the driver's largest piece of the heap: %zu bytes\n", largest_of_library.load());
  } else {
    // On CPUs without AVX-512, oneDNN copies operands into memory of its own. The plan includes this memory for
    // the largest product.
    const MatmulProblem largest_sizes{
        .m = 132, .n = 48, .k = 132, .num_threads = num_threads(), .isa = cpu_isa()};
    EXPECT_LE(largest_of_library.load(), static_cast<size_t>(matmul_library_bytes(largest_sizes)));
    if (cpu_isa() >= CpuIsa::kAvx512) {
      EXPECT_LT(largest_of_library.load(), 4096u);
    }
  }
  // Checks that the counter detects allocations of every kind.
  watching = true;
  void* probe = std::malloc(10000);
  const size_t seen = largest.load();
  probe = std::realloc(probe, 20000);
  const size_t seen_larger = largest.load();
  void* zeros = std::calloc(3, 10000);
  watching = false;
  ASSERT_NE(probe, nullptr);
  ASSERT_NE(zeros, nullptr);
  std::free(probe);
  std::free(zeros);
  EXPECT_EQ(seen, 10000u);
  EXPECT_EQ(seen_larger, 20000u);
  EXPECT_EQ(largest.load(), 30000u);
}

}  // namespace
}  // namespace plimsoll
