// Measures the highest rates of a GPU: of products by the library that runs them, and of copies by the driver. Not
// thread-safe: it uses the device.
#pragma once

#include <span>

#include "device/cuda/cuda_device.h"
#include "exec/ceilings.h"

namespace plimsoll {

// Overwrites `memory`, which is on the device, and waits for the device.
Ceilings measure_ceilings_cuda(CudaDevice& device, std::span<std::byte> memory, const PlanRequest& request);

}  // namespace plimsoll
