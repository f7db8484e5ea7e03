// Attention on an NVIDIA GPU: the *_cuda implementations of the contract in attention.h, where the error
// bounds are. Host code only: no CUDA header is needed to call these. It is not cuDNN's attention.
//
// Five families, a row of the catalog each. *_cuda_wgmma multiplies 16-bit tiles by warpgroups of Hopper's
// tensor cores (compute capability 9.0, head sizes from 33 to 64); *_cuda_mma by mma.sync (8.0 and later,
// head sizes that are multiples of 8 up to 128). *_cuda_tf32_wgmma and *_cuda_tf32 are the same for fp32
// tensors, whose elements are rounded to 11 bits on their way into a product (head sizes that are multiples
// of 4), for those who allow that. *_cuda_tiled computes in fp32 on the CUDA cores for every type and head
// sizes up to 128. All hold a tile of scores at a time and sum in a fixed order.
//
// Backward is two kernels, without atomics: one over query rows gives d_q (and, on the way, delta and with
// dropout one bit for each pair, both kept in scratch), one over key rows gives d_k and d_v. It does seven
// products where one kernel that adds up d_q in memory does five, but that one needs either atomics, whose
// sums depend on the schedule, or a float of scratch for each element of d_q and each block of keys: at 32
// sequences of 512 rows and 16 heads of 64 that is 256 MiB, written and read again.
//
// Views are device pointers. Everything is given to `stream` and may be captured in a CUDA graph: nothing is
// read back, allocated or waited for. The bucket alone sizes the grids; blocks beyond a sequence's end leave
// at once. cu_seqlens is trusted, as only the device knows it: from 0, never decreasing, last <= T, no
// sequence longer than dims.longest.
//
// Thread-safety: distinct streams may be driven from distinct threads. Nothing is owned.
#pragma once

#include <string_view>

#include "device/cuda/stream.h"
#include "kernels/attention/attention.h"

namespace plimsoll {

// `rng` is null when options.dropout is 0, else two numbers on the device, the seed and the number of the
// micro-batch; options.random gives the site only. The scratch of the backward pass has at least
// attention_bwd_cuda_{mma,tiled}_scratch_bytes(dims), in tf32 that of mma; forward needs none. Errors:
// kInternal where the arguments break the contract or the implementation's limits, kDevice where CUDA
// refuses.
using AttentionForward = void(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream);
using AttentionBackward = void(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream);
AttentionForward attention_fwd_cuda_mma, attention_fwd_cuda_tf32, attention_fwd_cuda_tiled;
AttentionBackward attention_bwd_cuda_mma, attention_bwd_cuda_tf32, attention_bwd_cuda_tiled;

// By warpgroups where the device and the build have them and heads are no wider than 64, else as *_cuda_mma
// or *_cuda_tf32, with their error bounds; bits are not those of mma.sync. On an H200 with dropout both
// passes over 32 x 16 x 512 x 64 take 1.13 ms in tf32 by warpgroups and 1.62 by mma.sync, over 32 x 12 x 128
// x 32, where half of a warpgroup's tile is zeros, 0.102 and 0.083.
AttentionForward attention_fwd_cuda_wgmma, attention_fwd_cuda_tf32_wgmma;
AttentionBackward attention_bwd_cuda_wgmma, attention_bwd_cuda_tf32_wgmma;

// What computes a row of the catalog in a bucket. That is the function of its name, but for *_cuda_wgmma in
// a bucket of short sequences (attention_is_of_short_sequences), which *_cuda_mma computes faster. Errors:
// kInternal for a name that is no row's.
AttentionForward* attention_fwd_cuda_of(std::string_view implementation, const AttentionDims& dims);
AttentionBackward* attention_bwd_cuda_of(std::string_view implementation, const AttentionDims& dims);

// The same with blocks of so many rows, 64 or 128, for each kernel of *_cuda_mma: what the bench compares.
struct AttentionBlockRows {
  int forward = 128;  // query rows
  int d_q = 128;      // query rows
  int d_kv = 128;     // key rows
};
void attention_fwd_cuda_mma_of(const AttentionFwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream);
void attention_bwd_cuda_mma_of(const AttentionBwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream);

}  // namespace plimsoll
