// The kernels of normalize.h on an NVIDIA GPU. element_wise/add_cuda.h states the rules for all CUDA kernels.
// Host-only header. A row is held in registers, so it has at most kMaxNormCudaColumns columns. rstd is f32.
// Errors against the reference: the bounds of normalize.h; the depth of a row's sum is not larger than there.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

void normalize_fwd_cuda(const NormalizeFwdArgs& args, CudaStream stream);
void normalize_bwd_cuda(const NormalizeBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
