// The kernel of dropout.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only
// header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/dropout.h"

namespace plimsoll {

// Reads the seed and the number of the micro-batch from rng[0] and rng[1] in device memory; the site is
// args.where.site. With a null pointer all three come from args.where. The mask equals that of the CPU bit
// for bit.
void dropout_fwd_cuda(const DropoutFwdArgs& args, const int64_t* rng, CudaStream stream);

}  // namespace plimsoll
