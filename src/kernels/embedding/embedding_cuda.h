// The kernels of embedding.h on an NVIDIA GPU. element_wise/add_cuda.h states the rules for all CUDA kernels.
// Host-only header. Tables and x may each be f32, bf16 or f16; d_table is f32.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/embedding/embedding.h"

namespace plimsoll {

// Reads the number of tokens from *num_tokens in device memory; with a null pointer it is args.num_tokens.
void embedding_sum_fwd_cuda(const EmbeddingSumFwdArgs& args, const int32_t* num_tokens, CudaStream stream);

// The sorted tokens are divided into pieces of kEmbeddingPiece tokens, or into longer ones for large batches.
// The terms of an id are added in the order of its tokens within a piece, then the sums of its pieces are
// added, in an order that depends on the ids only: every run gives the same bits. For tables of two rows,
// each warp adds the tokens of each row that it handles, and then the blocks' sums are added up. Adds to
// d_table if *accumulate is not 0; with a null pointer args.accumulate decides. Error:
// embedding_bwd_error_bound. Scratch: embedding_bwd_cuda_scratch_bytes, aligned to 16.
void embedding_bwd_cuda(const EmbeddingBwdArgs& args, const int32_t* accumulate, CudaStream stream);

}  // namespace plimsoll
