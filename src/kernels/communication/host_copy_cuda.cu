#include "kernels/communication/host_copy.h"

#include "base/check.h"
#include "kernels/element_wise/cuda/early_launch.cuh"

namespace plimsoll {
namespace {

constexpr int kInputThreads = 256;
// One thread block copies all outputs, so that a barrier is enough to ensure that numbers->ended is written after the copied bytes.
constexpr int kOutputThreads = 1024;

__global__ void __launch_bounds__(kInputThreads)
    copy_from_host_kernel(uint4* to, const uint4* from, int count) {
  const int i = static_cast<int>(blockIdx.x) * kInputThreads + static_cast<int>(threadIdx.x);
  // The host changes its memory between two launches, so the load must not use cached bytes.
  if (i < count) __stcg(to + i, __ldcv(from + i));
  __threadfence();
}

__global__ void __launch_bounds__(kOutputThreads)
    copy_to_host_kernel(uint4* to, const uint4* from, int count, HostCopyNumbers* numbers) {
  // The host has written numbers->begun before it enqueued this launch, so the kernel can read it while earlier launches are still running.
  const uint64_t begun =
      threadIdx.x == 0 ? __ldcv(reinterpret_cast<const unsigned long long*>(&numbers->begun)) : 0;
  cuda::begin_early_launch();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kOutputThreads) to[i] = __ldcg(from + i);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *reinterpret_cast<volatile unsigned long long*>(&numbers->ended) = begun;
}

int count_of(int64_t bytes) {
  PLIMSOLL_CHECK(bytes >= 0 && bytes % 16 == 0 && bytes <= kMostHostCopyBytes,
                 "a kernel can copy at most {} bytes, in multiples of 16, between the host and a GPU, not {}",
                 kMostHostCopyBytes, bytes);
  return static_cast<int>(bytes / 16);
}

}  // namespace

void copy_from_host_cuda(std::byte* to, const std::byte* from, int64_t bytes, CudaStream stream) {
  const int count = count_of(bytes);
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kInputThreads - 1) / kInputThreads);
  copy_from_host_kernel<<<blocks, kInputThreads, 0, stream>>>(reinterpret_cast<uint4*>(to),
                                                              reinterpret_cast<const uint4*>(from), count);
  PLIMSOLL_CUDA(cudaGetLastError());
}

void copy_to_host_cuda(std::byte* to, const std::byte* from, int64_t bytes, HostCopyNumbers* numbers,
                       CudaStream stream) {
  cuda::launch_early(copy_to_host_kernel, {.grid = dim3(1), .block = dim3(kOutputThreads)}, stream,
                     reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), count_of(bytes),
                     numbers);
}

}  // namespace plimsoll
