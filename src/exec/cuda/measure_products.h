// Measures algorithms of matrix products on a GPU, in memory that is free for the moment. Only for sources
// that are built with CUDA.
#pragma once

#include <memory>

#include "device/cuda/cuda_device.h"
#include "exec/tuning.h"

namespace plimsoll {

// `memory` of `bytes` is written over. Borrows device and memory.
std::unique_ptr<ProductMeasurer> make_cuda_measurer(CudaDevice& device, std::byte* memory, int64_t bytes);

}  // namespace plimsoll
