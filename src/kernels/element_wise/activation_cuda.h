// The kernels of activation.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only
// header. Errors against the reference: the bounds of activation.h.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/activation.h"

namespace plimsoll {

void tanh_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream);
void tanh_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream);
void relu_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream);
void relu_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
