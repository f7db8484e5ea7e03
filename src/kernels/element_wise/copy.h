// Copies bytes to another address, possibly in another memory. The type of the data does not matter.
//
// Requires: the two ranges do not overlap. On a GPU one of them may be in pinned host memory; the copy is
// enqueued on the stream and runs concurrently with the work of other streams. Exact. Cost: `bytes` read and
// written. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/stream.h"

namespace plimsoll {

struct CopyArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

void copy_ref(const CopyArgs& args);
void copy_cpu(const CopyArgs& args);

// The function below runs on an NVIDIA GPU. add.h states the rules for all CUDA kernels.

void copy_cuda(const CopyArgs& args, CudaStream stream);

}  // namespace plimsoll
