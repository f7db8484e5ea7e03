// Attributes of the current device, queried from CUDA once per device. Host code; only for .cu files.
// Thread-safe: the cache is atomic.
#pragma once

#include <array>
#include <atomic>

#include "device/cuda/cuda_error.h"

namespace plimsoll::cuda {

template <cudaDeviceAttr kAttribute>
int device_attribute() {
  static std::array<std::atomic<int>, 64> values{};
  int device = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  std::atomic<int>& value = values[static_cast<size_t>(device) % values.size()];
  if (value.load(std::memory_order_relaxed) == 0) {
    int asked = 0;
    PLIMSOLL_CUDA(cudaDeviceGetAttribute(&asked, kAttribute, device));
    value.store(asked, std::memory_order_relaxed);
  }
  return value.load(std::memory_order_relaxed);
}

}  // namespace plimsoll::cuda
