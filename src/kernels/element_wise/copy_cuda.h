// The copy of copy.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only header.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/copy.h"

namespace plimsoll {

void copy_cuda(const CopyArgs& args, CudaStream stream);

}  // namespace plimsoll
