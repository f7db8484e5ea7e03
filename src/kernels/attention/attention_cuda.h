// Attention on an NVIDIA GPU: the *_cuda implementations of the contract in attention.h, which also states
// the error bounds. This is host code: a caller needs no CUDA header. It does not use cuDNN's attention.
//
// There are five families of kernels, each an entry of the kernel catalog:
// - *_cuda_wgmma multiplies 16-bit tiles with warpgroup instructions on Hopper's tensor cores (compute
//   capability 9.0, head sizes from 33 to 128 that are multiples of 8).
// - *_cuda_mma uses mma.sync (compute capability 8.0 and later, head sizes that are multiples of 8 up to
//   128).
// - *_cuda_tf32_wgmma and *_cuda_tf32 do the same for fp32 tensors (head sizes that are multiples of 4; with warpgroups from 33 to 64, as
//   many heads of k and v as of q, and no window). They round elements to the 11 significant bits of tf32 before a product, so they are
//   only chosen if the user allows tf32.
// - *_cuda_tiled computes in fp32 on the CUDA cores for every type and for head sizes up to 128.
//
// All kernels keep only one tile of scores at a time and sum in a fixed order.
//
// The backward pass consists of two kernels without atomics. The first runs over query rows and computes d_q; it also writes delta and,
// with dropout, one bit per pair of a query and a key to scratch memory. The second runs over key rows and computes d_k and d_v; it
// processes the heads of q that share a head of k and v one after the other. Together the two kernels compute seven matrix products per
// pair of tiles. A single kernel that adds up d_q in memory would compute five, but it needs either atomics, whose sums depend on the
// schedule, or one float of scratch memory per element of d_q and block of keys: 256 MiB, written and read again, for 32 sequences of 512
// rows and 16 heads of 64.
//
// Views are device pointers. All work is enqueued on `stream` and may be captured in a CUDA graph: the functions do not read results back,
// allocate memory or wait for the device. The sizes of the grids depend on `dims` only; blocks past the end of a sequence return at
// once. cu_seqlens cannot be checked because only the device can read it. It must start at 0 and never decrease, its last element must be
// at most T, and no sequence may be longer than dims.longest.
//
// Thread-safety: distinct streams may be used from distinct threads. The functions own nothing.
#pragma once

#include <string_view>

#include "device/cuda/stream.h"
#include "kernels/attention/attention.h"

namespace plimsoll {

// In these functions, `rng` is null if options.dropout is 0. Otherwise it points to two numbers on the device, the seed and the number of
// the micro-batch; options.random is then used only for its site, the number that separates the random draws of different ops. The backward
// pass needs at least attention_bwd_cuda_{mma,tiled}_scratch_bytes(dims) of scratch memory (the tf32 functions need as much as mma); the
// forward pass needs none. Errors: kInternal if the arguments break the contract or exceed the implementation's limits, kDevice for an
// error from CUDA.
using AttentionForward = void(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream);
using AttentionBackward = void(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream);
AttentionForward attention_fwd_cuda_mma, attention_fwd_cuda_tf32, attention_fwd_cuda_tiled;
AttentionBackward attention_bwd_cuda_mma, attention_bwd_cuda_tf32, attention_bwd_cuda_tiled;

// These functions use warpgroup instructions if the device and the build have them; otherwise they call *_cuda_mma or *_cuda_tf32. The tf32
// function calls *_cuda_tf32 also for heads wider than 64, for query heads that share a head of k and v, and for a window. Error bounds are
// those of *_cuda_mma and *_cuda_tf32, but the bits differ. Both passes in tf32 with dropout, measured on an H200: 32 sequences of 512 rows
// and 16 heads of 64 take 1.13 ms with warpgroups and 1.62 ms with mma.sync. 32 sequences of 128 rows and 12 heads of 32 take 0.102 ms and
// 0.083 ms: half of each warpgroup tile consists of zeros then.
AttentionForward attention_fwd_cuda_wgmma, attention_fwd_cuda_tf32_wgmma;
AttentionBackward attention_bwd_cuda_wgmma, attention_bwd_cuda_tf32_wgmma;

// Returns the function to call for the catalog entry `implementation` and batches of the sizes `dims`. It is the function of the same name
// with one exception: for short sequences (attention_is_of_short_sequences) *_cuda_mma replaces *_cuda_wgmma, because it is faster there.
// Errors: kInternal if the catalog has no such entry.
AttentionForward* attention_fwd_cuda_of(std::string_view implementation, const AttentionDims& dims);
AttentionBackward* attention_bwd_cuda_of(std::string_view implementation, const AttentionDims& dims);

// The number of rows per thread block (64 or 128) of each kernel of *_cuda_mma. The functions attention_fwd_cuda_mma_of and
// attention_bwd_cuda_mma_of run the kernels with given numbers instead of the fastest ones, so that the benchmark can compare them.
struct AttentionBlockRows {
  int forward = 128;  // number of query rows per block of the forward kernel
  int d_q = 128;      // number of query rows per block of the kernel for d_q
  int d_kv = 128;     // number of key rows per block of the kernel for d_k and d_v
};
void attention_fwd_cuda_mma_of(const AttentionFwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream);
void attention_bwd_cuda_mma_of(const AttentionBwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream);

}  // namespace plimsoll
