// first_token_attention on an NVIDIA GPU of compute capability 9.0, whose 227 KiB of shared memory hold two
// tiles of rows of x at once. Contract: first_token_attention.h. Views point to device memory; x, w and
// scratch are aligned to 16 bytes. The function allocates nothing and may be captured in a CUDA graph. It
// does not check cu_seqlens (attention_cuda.h states the requirements).
#pragma once

#include "device/cuda/stream.h"
#include "kernels/attention/first_token_attention.h"

namespace plimsoll {

// Requires: first_token_attention_sizes_fit() and a card of compute capability 9.0. Errors: kInternal if the
// sizes do not fit or scratch is too small, kDevice for an error from CUDA.
void first_token_attention_cuda(const FirstTokenAttentionArgs& args, CudaStream stream);

}  // namespace plimsoll
