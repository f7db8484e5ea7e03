// log_softmax of softmax.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. Views are f32, bf16 or f16, all of one type. Errors against the reference: the bounds of
// softmax.h, plus the rounding of the store.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/loss/softmax.h"

namespace plimsoll {

void log_softmax_fwd_cuda(const SoftmaxFwdArgs& args, CudaStream stream);
void log_softmax_bwd_cuda(const SoftmaxBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
