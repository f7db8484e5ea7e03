// Tests that scaling the gradients of a custom loop writes only into their buffers. Each buffer is a separate
// allocation here, with a guard zone after its end that this test's allocator adds, so that a write beyond
// the buffer is detected. Sanitizers have guard zones of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "plimsoll/trainer.h"
#include "tests/training/tiny_folder.h"

namespace {

// The guard zone is filled with 1.0f, because scaling a gradient by any factor would change this value.
constexpr uint32_t kGuard = 0x3f800000;
constexpr size_t kGuards = 16;

std::atomic<int> num_damaged{0};
std::atomic<int> num_of_three_labels{0};  // number of allocations that have the size of three fp32 numbers

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasGuards = false;
#else
constexpr bool kHasGuards = true;

namespace {

// Returns the number of bytes before an allocated block, in which the allocator stores the size of the block. The guard zone is after the
// block.
size_t bytes_before(std::align_val_t alignment) {
  return std::max(static_cast<size_t>(alignment), sizeof(size_t));
}

}  // namespace

void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t before = bytes_before(alignment);
  const size_t all = before + bytes + kGuards * sizeof kGuard;
  auto* const start =
      static_cast<std::byte*>(std::aligned_alloc(before, (all + before - 1) / before * before));
  if (start == nullptr) throw std::bad_alloc();
  std::memcpy(start, &bytes, sizeof bytes);
  for (size_t i = 0; i < kGuards; ++i)
    std::memcpy(start + before + bytes + i * sizeof kGuard, &kGuard, sizeof kGuard);
  if (bytes == 3 * sizeof(float)) ++num_of_three_labels;
  return start + before;
}

void operator delete(void* block, std::align_val_t alignment) noexcept {
  if (block == nullptr) return;
  auto* const start = static_cast<std::byte*>(block) - bytes_before(alignment);
  size_t bytes = 0;
  std::memcpy(&bytes, start, sizeof bytes);
  bool damaged = false;
  for (size_t i = 0; i < kGuards; ++i) {
    damaged = damaged || std::memcmp(static_cast<std::byte*>(block) + bytes + i * sizeof kGuard, &kGuard,
                                     sizeof kGuard) != 0;
  }
  if (damaged) ++num_damaged;
  std::free(start);
}

void operator delete(void* block, size_t /*bytes*/, std::align_val_t alignment) noexcept {
  operator delete(block, alignment);
}
#endif

namespace plimsoll {
namespace {

// Runs three micro-batches although gradient_accumulation_steps is four, so that update() has to scale the
// accumulated gradients. Returns the weights.
std::string after_three_of_four(const testing::TestFolder& folder, bool apart) {
  Arguments arguments = testing::tiny_arguments(testing::write_tiny_model(folder), folder.path("run"));
  arguments.num_labels = 3;
  arguments.gradient_accumulation_steps = 4;
  arguments.debug_allocations = apart;
  Trainer trainer(arguments);
  for (int i = 0; i < 3; ++i) trainer.forward_backward(trainer.next_batch());
  EXPECT_GT(trainer.update(1e-2), 0.0);
  trainer.save_model(folder.path("saved"));
  return testing::read_file(folder.path("saved") + "/model.safetensors");
}

TEST(BlockBounds, ScalingGradientsLeavesWhatLiesBehindThem) {
  const testing::TestFolder folder("block_bounds");
  const std::string together = after_three_of_four(folder, false);
  ASSERT_FALSE(together.empty());
  num_of_three_labels = 0;
  EXPECT_TRUE(after_three_of_four(folder, true) == together);
  EXPECT_EQ(num_damaged, 0);
  // With three labels, at least four tensors have three fp32 numbers each: the classifier's bias, its gradient and its
  // two states.
  if (kHasGuards) {
    EXPECT_GE(num_of_three_labels, 4);
  }
}

}  // namespace
}  // namespace plimsoll
