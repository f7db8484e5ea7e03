// The kernels of gelu.h on an NVIDIA GPU; add_cuda.h says what holds for all CUDA kernels. Host-only header.
// Errors against the reference: the bounds of gelu.h; of column sums, column_sum_cuda_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/gelu.h"

namespace plimsoll {

void gelu_fwd_cuda(const GeluFwdArgs& args, CudaStream stream);
void gelu_bwd_cuda(const GeluBwdArgs& args, CudaStream stream);
void bias_gelu_fwd_cuda(const BiasGeluFwdArgs& args, CudaStream stream);

// Adds to d_b where *accumulate is not 0; with a null pointer args.accumulate decides. Scratch:
// bias_gelu_bwd_cuda_scratch_bytes, aligned to 16.
void bias_gelu_bwd_cuda(const BiasGeluBwdArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_gelu_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

}  // namespace plimsoll
