// The kernel of weight_copy.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/weight_copy.h"

namespace plimsoll {

void copy_weights_cuda(const WeightCopyArgs& args, CudaStream stream);

}  // namespace plimsoll
