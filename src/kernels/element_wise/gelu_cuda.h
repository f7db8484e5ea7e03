// The kernels of gelu.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only header.
// Errors against the reference: the bounds of gelu.h for f32 activations and for the tanh form. For the erf
// form with 16-bit activations the two bounds below replace gelu_fwd_error_bound and gelu_bwd_error_bound.
// Column sums: column_sum_cuda_error_bound.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/gelu.h"

namespace plimsoll {

void gelu_fwd_cuda(const GeluFwdArgs& args, CudaStream stream);
void gelu_bwd_cuda(const GeluBwdArgs& args, CudaStream stream);
void bias_gelu_fwd_cuda(const BiasGeluFwdArgs& args, CudaStream stream);

// Adds to d_b if *accumulate is not 0; with a null pointer args.accumulate decides. Scratch:
// bias_gelu_bwd_cuda_scratch_bytes, aligned to 16.
void bias_gelu_bwd_cuda(const BiasGeluBwdArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_gelu_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

// Phi(-|x|) is computed with a relative error of 2^-15, an eighth of the rounding error of f16.
inline double gelu_fwd_cuda_error_bound(double x, GeluForm form, DType stored) {
  const bool coarse = form == GeluForm::kErf && stored != DType::kF32;
  const double tail = std::abs(gelu_exact(-std::abs(x), form));
  return gelu_fwd_error_bound(x, form, stored) + (coarse ? 0x1p-15 * tail : 0.0);
}
// `activations` is the type of x and d_y.
inline double gelu_bwd_cuda_error_bound(double x, double d_y, GeluForm form, DType activations,
                                        DType stored) {
  const bool coarse = form == GeluForm::kErf && activations != DType::kF32;
  const double z = std::abs(x);
  const double tail = z > 0.0 ? std::abs(gelu_exact(-z, form)) / z : 0.5;
  return gelu_bwd_error_bound(x, d_y, form, stored) + (coarse ? 0x1p-15 * std::abs(d_y) * tail : 0.0);
}

}  // namespace plimsoll
