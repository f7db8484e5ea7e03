// The kernel of cast.h on an NVIDIA GPU, between any two of f32, bf16 and f16. add_cuda.h states the rules
// for all CUDA kernels. Host-only header. Denormal numbers are kept.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {

void cast_fwd_cuda(const CastFwdArgs& args, CudaStream stream);

}  // namespace plimsoll
