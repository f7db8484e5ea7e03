// Measures algorithms of matrix products on a GPU, in memory that the run does not use yet. Only for sources that are built with CUDA.
#pragma once

#include <memory>
#include <span>

#include "device/cuda/cuda_device.h"
#include "exec/tuning.h"

namespace plimsoll {

// Returns an object that measures matrix products on `device`. It uses and overwrites the `bytes` bytes at `memory`, and owns neither.
std::unique_ptr<ProductMeasurer> make_cuda_measurer(CudaDevice& device, std::byte* memory, int64_t bytes);

// Measures the highest rates of a GPU: matrix products by the library that computes them in training, and copies by the driver. Not
// thread-safe: it uses the device.

// Overwrites `memory`, which is on the device, and waits for the device.
Ceilings measure_ceilings_cuda(CudaDevice& device, std::span<std::byte> memory, const PlanRequest& request);

}  // namespace plimsoll
