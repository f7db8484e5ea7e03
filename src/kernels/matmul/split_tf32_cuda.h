// The kernel of split_tf32.h on an NVIDIA GPU. Host-only header. The views hold device memory; x and out are
// aligned to 16 bytes. Denormal numbers are kept. Bits are the reference's.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/matmul/split_tf32.h"

namespace plimsoll {

// Errors: kInternal for operands that are not f32 or not aligned, and beyond the sizes that the catalog takes
// (kTf32x3MaxTerms, 2^32 numbers); kDevice for a launch that is refused.
void split_tf32_cuda(const SplitTf32Args& args, CudaStream stream);

}  // namespace plimsoll
