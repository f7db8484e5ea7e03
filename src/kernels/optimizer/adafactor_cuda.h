// The kernel of adafactor.h on an NVIDIA GPU: four launches over all tensors (more where there are more
// tensors than a launch's parameters hold, some 300), without a host round trip. element_wise/add_cuda.h says
// what holds for all CUDA kernels. Host-only header. param is f32, or bf16 alone, of all tensors alike;
// states f32; grad f32, bf16 or f16; low bf16 or f16. Scalars are device memory. A step below 1 is not
// noticed. Error: adafactor_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/adafactor.h"

namespace plimsoll {

void adafactor_cuda(const AdafactorArgs& args, CudaStream stream);

}  // namespace plimsoll
