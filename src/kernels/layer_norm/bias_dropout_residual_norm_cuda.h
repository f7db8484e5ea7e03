// The kernels of bias_dropout_residual_norm.h on an NVIDIA GPU. element_wise/add_cuda.h states the rules for
// all CUDA kernels. Host-only header. A row is held in registers, so it has at most kMaxNormCudaColumns
// columns. rstd is f32. Errors against the reference: the bounds of bias_dropout_residual_norm.h; for column
// sums, norm_column_sum_cuda_depth times the roundoff and the sum of magnitudes.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"

namespace plimsoll {

// Reads the seed and the number of the micro-batch from rng[0] and rng[1] in device memory; the site is
// args.where.site. With a null pointer all three come from args.where. The masks equal those of the CPU bit
// for bit.
void bias_dropout_residual_norm_fwd_cuda(const BiasDropoutResidualNormFwdArgs& args, const int64_t* rng,
                                         CudaStream stream);

// Adds to d_bias, d_gain and d_beta if *accumulate is not 0; with a null pointer args.accumulate decides.
// Scratch: bias_dropout_residual_norm_bwd_cuda_scratch_bytes, aligned to 16.
void bias_dropout_residual_norm_bwd_cuda(const BiasDropoutResidualNormBwdArgs& args, const int64_t* rng,
                                         const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_dropout_residual_norm_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return norm_bwd_cuda_scratch_bytes(T, C);
}

}  // namespace plimsoll
