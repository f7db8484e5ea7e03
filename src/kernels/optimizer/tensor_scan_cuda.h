// The fill of tensor_scan.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {

// Any element type.
void fill_cuda(const FillArgs& args, CudaStream stream);

}  // namespace plimsoll
