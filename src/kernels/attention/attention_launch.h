// What the kernels of attention_cuda.h are given, and the functions that launch them: what lies between the
// checked call and the device code. Included by host and device code.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/stream.h"

namespace plimsoll {

// The arguments of attention.h as a kernel takes them. Pointers are on the device; those that a pass does not
// use are null. Strides are in elements.
struct AttentionKernelArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;
  const int32_t* cu_seqlens = nullptr;
  void* o = nullptr;  // read by the backward pass
  float* lse = nullptr;
  const void* d_o = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
  int64_t d_q_stride = 0, d_k_stride = 0, d_v_stride = 0;
  float* delta = nullptr;    // [H * T]
  uint32_t* keep = nullptr;  // [H, S / 32, T], null where the numbers are drawn again
  const int64_t* rng = nullptr;
  uint32_t site = 0;
  uint32_t threshold = 0;   // a pair is kept when its number is at least this
  float keep_scale = 1.0f;  // what a kept pair is multiplied by
  float scale = 1.0f;
  int tokens = 0, sequences = 0, longest = 0, heads = 0, head_dim = 0;
  bool dropout = false, causal = false;
  bool vectors = false;  // every row of every head starts at a multiple of four elements
  DType dtype = DType::kF32;
};

// The launches; arguments are right. Errors: kDevice.
void launch_attention_fwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_bwd_tiled(const AttentionKernelArgs& args, CudaStream stream);
// With blocks of `rows` rows, 64 or 128; heads wider than 64 always have 64. fp32 tensors are multiplied in
// tf32, with blocks of a fixed size.
void launch_attention_fwd_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dq_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
void launch_attention_dkv_mma(const AttentionKernelArgs& args, int rows, CudaStream stream);
// For 16-bit heads of up to 64 on a device of compute capability 9.0, where the program was built for it
// (PLIMSOLL_HAS_WGMMA).
void launch_attention_fwd_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma(const AttentionKernelArgs& args, CudaStream stream);
// The same for fp32 tensors, in tf32.
void launch_attention_fwd_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dq_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);
void launch_attention_dkv_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream);

}  // namespace plimsoll
