// The arguments of the kernels of attention_cuda.h and the functions that launch these kernels. Only the CUDA sources of attention include
// this header, and attention_cuda.cc, which checks the arguments of a call.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// The arguments of attention.h in the form that kernels take. Pointers refer to device memory; those that a pass does not use are null.
// Strides are in elements.
struct AttentionKernelArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;
  const int32_t* cu_seqlens = nullptr;
  void* o = nullptr;  // result of the forward pass, which the backward pass reads
  float* lse = nullptr;
  const void* d_o = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
  int64_t d_q_stride = 0, d_k_stride = 0, d_v_stride = 0;
  float* delta = nullptr;  // delta of attention.h, in scratch memory, shape [H, T]
  // Dropout bits in scratch memory, shape [H, S / 32, T]; null if the kernel for d_k and d_v draws the random numbers again.
  uint32_t* keep = nullptr;
  const int64_t* rng = nullptr;
  uint32_t site = 0;
  uint32_t threshold = 0;   // dropout keeps a probability if its random number is at least this
  float keep_scale = 1.0f;  // factor by which dropout multiplies a kept probability
  float scale = 1.0f;
  int tokens = 0, sequences = 0, longest = 0, heads = 0, head_dim = 0;
  int kv_heads = 0;  // number of heads of k and v
  // If several ranks divide the heads of an attention layer: the number of heads of all ranks, and the index of the first head of this
  // rank. The random numbers of dropout depend on both numbers.
  int all_heads = 0, first_head = 0;
  int group = 1;   // number of heads of q per head of k and v
  int window = 0;  // rows at this distance or farther do not see each other; 0 means no limit
  bool dropout = false, causal = false;
  bool vectors = false;  // true if the address of every row of every head permits loads of four elements
  DType dtype = DType::kF32;
};

// Launch the kernels for the CUDA cores. Requires: the caller has checked the arguments. Errors: kDevice.
void launch_attention_fwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_bwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
// Launch the mma.sync kernels with blocks of `rows` rows, 64 or 128; heads wider than 64 always use 64. For fp32 tensors they multiply in
// tf32, and the number of rows is fixed.
void launch_attention_fwd_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dq_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dkv_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
// Launch the warpgroup kernels for 16-bit tensors with a head size of up to 128. Requires: a device of compute capability 9.0 and a build
// for it (PLIMSOLL_HAS_WGMMA).
void launch_attention_fwd_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma(const AttentionKernelArgs& args, CudaStream stream);
// Launch the warpgroup kernels for fp32 tensors with a head size of up to 64, which multiply in tf32. Device and build must meet the same
// requirements as for 16-bit tensors.
void launch_attention_fwd_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);

}  // namespace plimsoll
