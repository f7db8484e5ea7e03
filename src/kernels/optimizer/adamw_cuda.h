// The kernel of adamw.h on an NVIDIA GPU: all tensors in one launch (in several where there are more than the
// launch's parameters hold, some 500). element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. param is f32, split or bf16 alone; m and v f32 or bf16; grad f32, bf16 or f16; low bf16
// or f16. learning_rate, step, clip_coefficient and finite are device memory. A step below 1 is not noticed.
// Error: adamw_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/adamw.h"

namespace plimsoll {

void adamw_cuda(const AdamwArgs& args, CudaStream stream);

}  // namespace plimsoll
