// Normalization of each row to mean 0 and variance 1, without gain and bias (see element_wise/scale_shift.h). The header states the
// contracts of these kernels, which allocate no memory.
//
//   mean = sum(x) / C, var = sum((x - mean)^2) / C, rstd = 1 / sqrt(var + eps), x_hat = (x - mean) * rstd
//
// (Ba, Kiros, Hinton, "Layer Normalization", arXiv:1607.06450, equation 4.) The variance is computed in a second pass over the row, never
// as E[x^2] - mean^2, a difference of two nearly equal numbers that loses accuracy.
//
// Legend: T rows (one per token, then unused tail rows), C columns, row-major and dense. A row of equal numbers gives the finite values
// x_hat = 0 and rstd = 1 / sqrt(eps).
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. The _ref
// functions are plain loops in double and take any floating type for each view. The _cpu functions take f32 or bf16
// activations (all of one type), f32 rstd and C <= kMaxNormColumns, and compute in fp32. Errors: kInternal if a view
// is absent or has an unsupported type. Repeatability: the same bits for any number of threads on one instruction
// set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"
#include "kernels/layer_norm/layer_norm_catalog.h"

namespace plimsoll {

// Computes x_hat and rstd of each row of x. Aliasing: x_hat may be x. Scratch: none. Cost: 7*T*C FLOPs; 2*T*C + T elements moved.
// Error: normalize_fwd_error_bound, rstd_error_bound.
struct NormalizeFwdArgs {
  ConstView x;  // input, shape [T, C]
  View x_hat;   // output, shape [T, C]
  View rstd;    // output, the factor rstd of each row, shape [T]
  int64_t T = 0;
  int64_t C = 0;
  double eps = 1e-5;
};
void normalize_fwd_ref(const NormalizeFwdArgs& args);
void normalize_fwd_cpu(const NormalizeFwdArgs& args);

// Computes d_x = rstd * (d_x_hat - mean(d_x_hat) - x_hat * mean(d_x_hat * x_hat)), with means over each row.
//   Rows in which d_x_hat is zero give zero. Aliasing: d_x may be d_x_hat or x_hat. Scratch: none.
//   Cost: 9*T*C FLOPs; 3*T*C + T elements moved. Error: normalize_bwd_error_bound.
struct NormalizeBwdArgs {
  ConstView d_x_hat;  // gradient of x_hat, shape [T, C]
  ConstView x_hat;    // output of the forward pass, shape [T, C]
  ConstView rstd;     // output rstd of the forward pass, shape [T]
  View d_x;           // output, the gradient of x, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
};
void normalize_bwd_ref(const NormalizeBwdArgs& args);
void normalize_bwd_cpu(const NormalizeBwdArgs& args);

// Returns the largest number of additions that a term takes part in when a row is summed. Columns are added in groups of 256, into four
// vectors of at least one lane each; the sum of each group is then added to the sum of the row.
constexpr double row_sum_depth(int64_t C) {
  const int64_t additions = (std::min<int64_t>(C, 256) + 3) / 4 + (C + 255) / 256 + 8;
  return static_cast<double>(additions);
}

// Properties of a row from which the error bounds below are computed. Their values are exact (in double).
struct RowMagnitudes {
  double mean_abs = 0.0;     // the mean of |s|, where s are the numbers that are normalized
  double input_error = 0.0;  // the largest error of an element of s; 0 if s is an input
  double rstd = 0.0;
};
// The errors of the mean and of rstd that a kernel computes for a row. The error of the mean is norm_mean_error. The relative error of the
// variance comes from the rounding of its terms and its sum, and from the square of the error of the mean. row.input_error, the error of s
// itself, adds to both.
inline double norm_mean_error(const RowMagnitudes& row, int64_t C) {
  return (row_sum_depth(C) + 2.0) * kRoundoffF32 * row.mean_abs + row.input_error;
}
inline double rstd_error_bound(const RowMagnitudes& row, int64_t C) {
  const double shift = norm_mean_error(row, C) * row.rstd;
  const double relative =
      (0.5 * row_sum_depth(C) + 6.0) * kRoundoffF32 + 0.5 * shift * shift + row.input_error * row.rstd;
  return 1.01 * relative * row.rstd;
}
inline double normalize_fwd_error_bound(const RowMagnitudes& row, double x_hat, int64_t C, DType stored) {
  return std::abs(x_hat) * (rstd_error_bound(row, C) / row.rstd + 2.0 * kRoundoffF32) +
         1.01 * row.rstd * (norm_mean_error(row, C) + row.input_error) + store_error_bound(stored, x_hat);
}

// Returns the error bound of an element of d_x. With g = d_x_hat (d_y * gain in the fused kernel), mean_abs_g is the mean of |g| and
// mean_abs_gx the mean of |g * x_hat| over the row.
inline double normalize_bwd_error_bound(double rstd, double g, double x_hat, double mean_abs_g,
                                        double mean_abs_gx, int64_t C) {
  const double depth = row_sum_depth(C);
  return 1.01 * kRoundoffF32 * rstd *
         (7.0 * std::abs(g) + (depth + 8.0) * mean_abs_g + std::abs(x_hat) * (depth + 9.0) * mean_abs_gx);
}

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. A row is held in registers, so it has
// at most kMaxNormCudaColumns columns. rstd is f32. Errors against the reference: the bounds above; the kernels do not use more additions
// per sum over a row than row_sum_depth.

void normalize_fwd_cuda(const NormalizeFwdArgs& args, CudaStream stream);
void normalize_bwd_cuda(const NormalizeBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
