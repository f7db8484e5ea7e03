// The kernel of adagrad_8bit.h on an NVIDIA GPU: all tensors in one launch (in several where there are more
// than the launch's parameters hold, some 400). element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. param is f32, or bf16 alone, of all tensors alike; absmax f32; grad f32, bf16 or f16; low
// bf16 or f16. Scalars are device memory. Error: that of adagrad_8bit.h.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/adagrad_8bit.h"

namespace plimsoll {

void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream);

}  // namespace plimsoll
