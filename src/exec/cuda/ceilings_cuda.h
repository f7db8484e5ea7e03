// What the GPU at hand can do at most: products by the library that runs them, copies by the driver. Not
// thread-safe: it drives the device.
#pragma once

#include <span>

#include "device/cuda/cuda_device.h"
#include "exec/ceilings.h"

namespace plimsoll {

// Writes all over `memory`, which lies on the device, and waits.
Ceilings measure_ceilings_cuda(CudaDevice& device, std::span<std::byte> memory, const PlanRequest& request);

}  // namespace plimsoll
