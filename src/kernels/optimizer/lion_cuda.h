// The kernel of lion.h on an NVIDIA GPU: all tensors in one launch (in several where there are more than the
// launch's parameters hold, some 500). element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. param is f32, or bf16 alone; m f32; grad f32, bf16 or f16; low bf16 or f16.
// learning_rate, clip_coefficient and finite are device memory. Error: lion_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/lion.h"

namespace plimsoll {

void lion_cuda(const LionArgs& args, CudaStream stream);

}  // namespace plimsoll
