// The kernel of sgd.h on an NVIDIA GPU: all tensors in one launch (in several where there are more than the
// launch's parameters hold, some 500). element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. param is f32, or bf16 alone; m f32; grad f32, bf16 or f16; low bf16 or f16.
// learning_rate, step, clip_coefficient and finite are device memory. Error: sgd_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {

void sgd_cuda(const SgdArgs& args, CudaStream stream);

}  // namespace plimsoll
