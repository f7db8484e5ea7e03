// The kernel of dropout.h on an NVIDIA GPU; add_cuda.h says what holds for all CUDA kernels. Host-only
// header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/dropout.h"

namespace plimsoll {

// Seed and number of the micro-batch are rng[0] and rng[1] in device memory, the site is args.where.site;
// with a null pointer args.where says all three. The mask is that of the CPU, bit for bit.
void dropout_fwd_cuda(const DropoutFwdArgs& args, const int64_t* rng, CudaStream stream);

}  // namespace plimsoll
