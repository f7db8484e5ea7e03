// The arguments of the kernels of attention_cuda.h and the functions that launch them: the interface between
// the host code, which checks the call, and the device code. Both include it.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// The arguments of attention.h in the form that kernels take. Pointers are on the device; those that a pass
// does not use are null. Strides are in elements.
struct AttentionKernelArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;
  const int32_t* cu_seqlens = nullptr;
  void* o = nullptr;  // output of the forward pass, input of the backward pass
  float* lse = nullptr;
  const void* d_o = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
  int64_t d_q_stride = 0, d_k_stride = 0, d_v_stride = 0;
  float* delta = nullptr;    // [H * T]
  uint32_t* keep = nullptr;  // [H, S / 32, T]; null if the numbers are drawn again
  const int64_t* rng = nullptr;
  uint32_t site = 0;
  uint32_t threshold = 0;   // dropout keeps a pair if its random number is at least this
  float keep_scale = 1.0f;  // factor of a kept probability
  float scale = 1.0f;
  int tokens = 0, sequences = 0, longest = 0, heads = 0, head_dim = 0;
  int kv_heads = 0;  // heads of k and v
  // The number of heads of all ranks that divide the attention, and the index of the first head of this rank. The random numbers of dropout
  // depend on both.
  int all_heads = 0, first_head = 0;
  int group = 1;   // heads of q per head of k and v
  int window = 0;  // rows that are this far apart or farther do not see each other; 0: no limit
  bool dropout = false, causal = false;
  bool vectors = false;  // every row of every head starts at a multiple of four elements
  DType dtype = DType::kF32;
};

// Launches the tiled kernel. Requires: the arguments were checked. Errors: kDevice.
void launch_attention_fwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_bwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
// Launches with blocks of `rows` rows, 64 or 128; heads wider than 64 always use 64. fp32 tensors are
// multiplied in tf32, with blocks of a fixed size.
void launch_attention_fwd_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dq_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dkv_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
// Launch the kernels for 16-bit tensors with a head size of up to 128 on a device of compute capability 9.0. They exist if the program was
// built for it (PLIMSOLL_HAS_WGMMA).
void launch_attention_fwd_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma(const AttentionKernelArgs& args, CudaStream stream);
// Launch the kernels for fp32 tensors with a head size of up to 64, which are multiplied in tf32, under the same conditions.
void launch_attention_fwd_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);

}  // namespace plimsoll
