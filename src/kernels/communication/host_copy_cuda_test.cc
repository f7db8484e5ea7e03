// Tests the copies between pinned host memory and a GPU that kernels make.
#include "kernels/communication/host_copy.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/event.h"

namespace plimsoll::test {
namespace {

constexpr int64_t kGuard = 256;

std::byte byte_at(int64_t i, int round) {
  return static_cast<std::byte>((i * 7 + round * 31) % 251);
}

// Copies `bytes` bytes to the GPU and back, by launches and then by a captured CUDA graph, and compares all bytes, also those after the
// copied ones.
void check_copies(int64_t bytes) {
  SCOPED_TRACE(bytes);
  const PinnedMemory sent(bytes + 16), received(bytes + kGuard),
      numbers_memory(static_cast<int64_t>(sizeof(HostCopyNumbers)));
  auto* numbers = reinterpret_cast<HostCopyNumbers*>(numbers_memory.data());
  std::byte* device = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), static_cast<size_t>(bytes + kGuard)));
  PLIMSOLL_CUDA(cudaMemset(device, 255, static_cast<size_t>(bytes + kGuard)));
  const CudaSideStream stream;
  const auto copy = [&] {
    copy_from_host_cuda(device, sent.data(), bytes, stream.get());
    copy_to_host_cuda(received.data(), device, bytes, numbers, stream.get());
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  PLIMSOLL_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  copy();
  PLIMSOLL_CUDA(cudaStreamEndCapture(stream.get(), &graph));
  PLIMSOLL_CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  for (int round = 1; round <= 4; ++round) {
    for (int64_t i = 0; i < bytes; ++i) sent.data()[i] = byte_at(i, round);
    std::memset(received.data(), 0, static_cast<size_t>(received.bytes()));
    ++numbers->begun;
    if (round <= 2) {
      copy();
    } else {
      PLIMSOLL_CUDA(cudaGraphLaunch(executable, stream.get()));
    }
    PLIMSOLL_CUDA(cudaStreamSynchronize(stream.get()));
    EXPECT_EQ(numbers->ended, static_cast<uint64_t>(round));
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; ++i) wrong += received.data()[i] != byte_at(i, round) ? 1 : 0;
    for (int64_t i = bytes; i < bytes + kGuard; ++i) wrong += received.data()[i] != std::byte{0} ? 1 : 0;
    EXPECT_EQ(wrong, 0);
  }
  std::vector<std::byte> after(static_cast<size_t>(kGuard));
  PLIMSOLL_CUDA(cudaMemcpy(after.data(), device + bytes, after.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(after, std::vector<std::byte>(after.size(), std::byte{255}));
  PLIMSOLL_CUDA(cudaGraphExecDestroy(executable));
  PLIMSOLL_CUDA(cudaGraphDestroy(graph));
  PLIMSOLL_CUDA(cudaFree(device));
}

TEST(HostCopyCuda, CopiesAllBytesBothWays) {
  for (const int64_t bytes : {int64_t{16}, int64_t{4112}, int64_t{16400}, kMostHostCopyBytes})
    check_copies(bytes);
}

// When the host reads the new value of numbers->ended, without a call of the driver, the copied bytes must already be in its memory.
TEST(HostCopyCuda, TheHostSeesTheNumberAfterTheBytes) {
  constexpr int64_t kBytes = 4096;
  const PinnedMemory sent(kBytes), received(kBytes),
      numbers_memory(static_cast<int64_t>(sizeof(HostCopyNumbers)));
  auto* numbers = reinterpret_cast<HostCopyNumbers*>(numbers_memory.data());
  std::byte* device = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  const CudaSideStream stream;
  int64_t wrong = 0;
  for (int round = 1; round <= 1000; ++round) {
    std::memset(sent.data(), round % 251, kBytes);
    ++numbers->begun;
    copy_from_host_cuda(device, sent.data(), kBytes, stream.get());
    copy_to_host_cuda(received.data(), device, kBytes, numbers, stream.get());
    while (std::atomic_ref(numbers->ended).load(std::memory_order_acquire) != numbers->begun) {
    }
    for (int64_t i = 0; i < kBytes; ++i)
      wrong += received.data()[i] != static_cast<std::byte>(round % 251) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
  PLIMSOLL_CUDA(cudaStreamSynchronize(stream.get()));
  PLIMSOLL_CUDA(cudaFree(device));
}

TEST(HostCopyCuda, RefusesOtherSizes) {
  EXPECT_THROW(copy_from_host_cuda(nullptr, nullptr, 17, nullptr), Error);
  EXPECT_THROW(copy_from_host_cuda(nullptr, nullptr, kMostHostCopyBytes + 16, nullptr), Error);
}

}  // namespace
}  // namespace plimsoll::test
