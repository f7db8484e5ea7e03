// Copies of inputs and outputs between GPU memory and pinned host memory that are made by kernels. For a few kilobytes, a kernel that
// accesses host memory itself is faster than a copy engine, which a stream starts only after the work before it, and the host notices the
// end of the copy without a call of the driver. Only for sources that are built with CUDA.
//
// Shapes and types: bytes; addresses and sizes are multiples of 16. The bits are copied unchanged. Aliasing: none. Scratch: none.
// Thread-safe: no state. Errors: GpuError.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/stream.h"

namespace plimsoll {

// The largest number of bytes for which these kernels are meant. For more, a copy engine is faster.
inline constexpr int64_t kMostHostCopyBytes = 64 << 10;

// Copies `bytes` bytes from pinned host memory to the GPU. No later kernel of the stream starts before the copy has ended, even if it is
// launched early (early_launch.cuh). Such kernels may therefore read the copied bytes before they wait for the launches before them.
void copy_from_host_cuda(std::byte* to, const std::byte* from, int64_t bytes, CudaStream stream);

// Numbers in pinned host memory through which the host learns that copy_to_host_cuda() has ended. Before it enqueues the work, the host
// increments `begun`. The kernel reads this number and writes it to `ended` after the copied bytes.
struct HostCopyNumbers {
  uint64_t begun = 0;
  uint64_t ended = 0;
};
// Copies `bytes` bytes from the GPU to pinned host memory, and then sets numbers->ended to numbers->begun.
void copy_to_host_cuda(std::byte* to, const std::byte* from, int64_t bytes, HostCopyNumbers* numbers,
                       CudaStream stream);

}  // namespace plimsoll
