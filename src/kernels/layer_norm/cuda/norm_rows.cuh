// Declares the two CUDA kernels of this folder: the normalization of rows with the optional operations before and after it, and its
// gradient. Optional operands may be null in any combination. The file contains declarations for host code and code that both kernels use.
// For .cu files only. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/random.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/layer_norm/layer_norm_catalog.h"

namespace plimsoll::cuda {

// The operands of the forward kernel: s = residual + dropout(x + bias); x_hat = (s - mean) * rstd; y = x_hat * gain + beta. If `sum` is
// present, s is stored there and x_hat is computed from the stored values.
struct NormFwd {
  const void* x = nullptr;
  const void* residual = nullptr;
  AnyFloats bias = {};
  AnyFloats gain = {};
  AnyFloats beta = {};
  void* y = nullptr;
  void* x_hat = nullptr;
  float* rstd = nullptr;
  void* sum = nullptr;
  int64_t T = 0;
  int64_t C = 0;
  float eps = 0.0f;
  Dropout dropout = {};
};
// Launches the forward kernel. Requires: x, residual, y, x_hat and sum have type `dtype`.
void launch_norm_fwd(const NormFwd& operands, DType dtype, CudaStream stream);

// The operands of the backward kernel: g = d_y + d_y2; d_residual = normalize_bwd(g * gain) + d_sum_term; d_x = dropout(d_residual). The
// kernel also sums g * x_hat, g and d_x over the rows.
struct NormBwd {
  const void* d_y = nullptr;
  const void* d_y2 = nullptr;
  const void* x_hat = nullptr;
  const float* rstd = nullptr;
  AnyFloats gain = {};
  const void* d_sum_term = nullptr;
  void* d_residual = nullptr;
  void* d_x = nullptr;
  int64_t T = 0;
  int64_t C = 0;
  Dropout dropout = {};
};
struct NormBwdSums {
  View d_gain = {};
  View d_beta = {};
  View d_bias = {};
  View scratch = {};
  AddFlag add = {};

  bool any() const { return d_gain || d_beta || d_bias; }
};
// Launches the backward kernel. Requires: d_y, d_y2, x_hat, d_sum_term, d_residual and d_x have type `dtype`.
void launch_norm_bwd(const NormBwd& operands, const NormBwdSums& sums, DType dtype, CudaStream stream);

// Checks that a row fits into the registers of a thread block (kMaxNormCudaColumns). Errors: kInternal if not.
inline void check_norm_columns(const char* kernel, int64_t C) {
  PLIMSOLL_CHECK(C >= 1 && C <= kMaxNormCudaColumns, "{}: rows must have 1 to {} columns, but have {}",
                 kernel, kMaxNormCudaColumns, C);
}

}  // namespace plimsoll::cuda
