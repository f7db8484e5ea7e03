// first_token_attention on an NVIDIA GPU of compute capability 9.0, whose 227 KiB of shared memory hold two
// tiles of rows of x beside each other. Contract: first_token_attention.h; the views hold device memory, x, w
// and scratch aligned to 16 bytes. It allocates nothing and may be captured in a CUDA graph; cu_seqlens is
// trusted, as attention_cuda.h has it.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/attention/first_token_attention.h"

namespace plimsoll {

// Requires: first_token_attention_sizes_fit() and a card of compute capability 9.0. Errors: kInternal where
// they do not or scratch is too small, kDevice where CUDA refuses.
void first_token_attention_cuda(const FirstTokenAttentionArgs& args, CudaStream stream);

}  // namespace plimsoll
