// The kernels of first_token.h on an NVIDIA GPU. element_wise/add_cuda.h states the rules for all CUDA
// kernels. Host-only header. x and out may each be f32, bf16 or f16.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/embedding/first_token.h"

namespace plimsoll {

void first_token_fwd_cuda(const FirstTokenFwdArgs& args, CudaStream stream);
void first_token_bwd_cuda(const FirstTokenBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
