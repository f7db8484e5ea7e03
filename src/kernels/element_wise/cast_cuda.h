// The kernel of cast.h on an NVIDIA GPU, from any of f32, bf16, f16 to any of them; add_cuda.h says what
// holds for all CUDA kernels. Host-only header. Denormal numbers are kept.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {

void cast_fwd_cuda(const CastFwdArgs& args, CudaStream stream);

}  // namespace plimsoll
