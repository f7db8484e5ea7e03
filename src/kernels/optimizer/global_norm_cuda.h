// The kernels of global_norm.h on an NVIDIA GPU, without a host round trip; element_wise/add_cuda.h says what
// holds for all CUDA kernels. Host-only header. Gradients are f32, bf16 or f16; loss, norm, finite, first_bad
// and coefficient are device memory.
//
// Accumulation: squares of eight neighbouring elements in fp32 where that neither overflows nor underflows,
// else in double; all else in double. Error of the norm against the reference: global_norm_cuda_error
// relative, plus 2^-24 if stored as f32.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/optimizer_catalog.h"

namespace plimsoll {

// Eight roundings of the squares and their fp32 sum, halved by the root; and what the double sums differ by.
constexpr double global_norm_cuda_error(int64_t n) {
  return 0.5 * (8.0 * 0x1p-24 + square_sum_error(n));
}

// Scratch: kGlobalNormCudaScratchBytes, aligned to 16.
void global_norm_cuda(const GlobalNormArgs& args, CudaStream stream);
void clip_coefficient_cuda(const ClipCoefficientArgs& args, CudaStream stream);

}  // namespace plimsoll
