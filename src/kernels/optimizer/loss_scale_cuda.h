// The kernel of loss_scale.h on an NVIDIA GPU: one thread; element_wise/add_cuda.h says what holds for all
// CUDA kernels. Host-only header. Every view is device memory.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/loss_scale.h"

namespace plimsoll {

void adjust_loss_scale_cuda(const AdjustLossScaleArgs& args, CudaStream stream);

}  // namespace plimsoll
