// Root-mean-square normalization with gain (Zhang and Sennrich, arXiv:1910.07467): of whole rows, or of each head of a row. The header
// states the contracts of these kernels, which allocate no memory.
//
//   rstd = 1 / sqrt(sum(x^2) / C + eps)     x_hat = x rstd     y = gain x_hat
//
// With a residual, s = x + residual is rounded to the type of x and then normalized. s is also an output, because later ops read it. The
// gradient of s that these ops compute (d_sum_term) is added in the backward pass.
//
// Legend: T rows of N elements (one row per token, then unused tail rows). A row begins with H vectors of C elements, which are
// normalized with `gain`, and then has G vectors that are normalized with `second_gain`; the elements after them are copied. A norm
// of whole rows has H = 1, G = 0 and C = N. The norms of q and k in a row of q, k and v have H heads of q, G heads of k, and copy
// v.
//
// Types, threads, ownership, errors and repeatability are those of normalize.h; x, y and their gradients have one type, and
// gains another. Rows of zeros give y = 0 and the finite rstd = 1 / sqrt(eps).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"
#include "kernels/layer_norm/layer_norm_catalog.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

struct RmsNormDims {
  int64_t T = 0;
  int64_t N = 0;
  int64_t C = 0;
  int64_t H = 1;
  int64_t G = 0;
};

// Computes y and rstd. Requires: a residual and `sum` are both present or both null; with them H = 1, G = 0 and C = N.
// Aliasing: y and sum are distinct; each of them may be x or the residual. Scratch: none. Cost: 5 T (H + G) C FLOPs; 2 T N +
// T (H + G) elements moved, 4 T N + T with a residual.
struct RmsNormFwdArgs {
  RmsNormDims dims;
  ConstView x;            // input, shape [T, N]
  ConstView gain;         // gain of the first H vectors of a row, shape [C]
  ConstView second_gain;  // gain of the G later vectors of a row, shape [C]; null if G is 0
  View y;                 // output, shape [T, N]
  View rstd;              // output rstd, shape [T, H + G]; null if no backward pass follows
  double eps = 1e-6;
  ConstView residual = {};  // residual that is added to x, shape [T, N]; may be null
  View sum = {};            // output s, shape [T, N]
};
void rms_norm_fwd_ref(const RmsNormFwdArgs& args);
void rms_norm_fwd_cpu(const RmsNormFwdArgs& args);
void rms_norm_fwd_cuda(const RmsNormFwdArgs& args, CudaStream stream);

// Computes, with g = d_y gain and the mean over a vector,
//
//   d_x = rstd (g - x_hat mean(g x_hat)) + d_sum_term     d_gain = (or +=) sum over vectors of d_y x_hat
//
// where x is s if there was a residual and d_x is the gradient of s, and copies d_y to d_x for the elements that the forward pass copied.
// Accumulation: fp32; the sums of d_gain as in scale_shift.h, with the vectors of one gain as rows. Vectors in which d_y is zero give zero
// and contribute exactly zero. Aliasing: d_x may be d_y, x or d_sum_term. Scratch: rms_norm_bwd_scratch_bytes (the reference needs none).
// Cost: 12 T (H + G) C FLOPs; 3 T N elements moved, 4 T N with d_sum_term, plus the scratch twice.
struct RmsNormBwdArgs {
  RmsNormDims dims;
  ConstView d_y;          // gradient of y, shape [T, N]
  ConstView x;            // input of the norm, shape [T, N]
  ConstView gain;         // gain of the first H vectors of a row, shape [C]
  ConstView second_gain;  // gain of the G later vectors of a row, shape [C]; null if G is 0
  ConstView rstd;         // output of the forward pass, shape [T, H + G]
  View d_x;               // output, the gradient of x, shape [T, N]
  View d_gain;            // output, the gradient of the gain, shape [C]
  View d_second_gain;     // output, the gradient of second_gain, shape [C]; null if G is 0
  View scratch;
  Accumulate accumulate = Accumulate::kOverwrite;
  // Gradient of s from other ops that read s, shape [T, N]; may be null; requires C = N.
  ConstView d_sum_term = {};
};
void rms_norm_bwd_ref(const RmsNormBwdArgs& args);
void rms_norm_bwd_cpu(const RmsNormBwdArgs& args);
// Computes the backward pass. Adds to the gradients of the gains if *accumulate (in device memory) is not 0; if `accumulate` is null,
// args.accumulate decides. Scratch: rms_norm_bwd_cuda_scratch_bytes, aligned to 16 bytes.
void rms_norm_bwd_cuda(const RmsNormBwdArgs& args, const int32_t* accumulate, CudaStream stream);

// Checks the operands of a forward pass with a residual. Errors: kInternal if only one of the residual and the sum is present, or if they
// are present but the norm does not cover whole rows.
inline void check_rms_norm_residual(const char* kernel, const RmsNormFwdArgs& args) {
  PLIMSOLL_CHECK(static_cast<bool>(args.residual) == static_cast<bool>(args.sum) &&
                     (!args.residual || args.dims.C == args.dims.N),
                 "{}: residual and sum must both be present or absent, and if present, the norm must cover "
                 "complete rows, but it covers vectors of {} in rows of {} elements",
                 kernel, args.dims.C, args.dims.N);
}

// Returns how the vectors of one gain (`count` per row) are divided into blocks that are summed separately. `most` is the larger of the
// numbers of vectors per row of the two gains; it determines the size of a block, because scratch memory is planned for it.
constexpr RowBlocks rms_norm_blocks(int64_t T, int64_t count, int64_t most, int64_t C) {
  const int64_t rows = row_blocks(T * most, C).rows_per_block;
  return {(T * count + rows - 1) / rows, rows};
}
constexpr int64_t rms_norm_bwd_scratch_bytes(const RmsNormDims& dims) {
  return column_sums_scratch_bytes(dims.T * std::max(dims.H, dims.G), dims.C, 1);
}
constexpr int64_t rms_norm_bwd_cuda_scratch_bytes(const RmsNormDims& dims) {
  return rms_norm_cuda_scratch_bytes(dims.T * std::max(dims.H, dims.G), dims.C);
}
// Return the largest number of additions that any term of the sum d_gain takes part in, on a CPU and on a GPU. The error bounds of d_gain
// are computed from this number.
constexpr double rms_norm_gain_depth(const RmsNormDims& dims) {
  const int64_t most = std::max(dims.H, dims.G);
  return static_cast<double>(row_blocks(dims.T * most, dims.C).rows_per_block) + 64.0 + 2.0;
}
constexpr double rms_norm_gain_cuda_depth(const RmsNormDims& dims) {
  const RowBlocks groups = rms_norm_cuda_groups(dims.T * std::max(dims.H, dims.G), dims.C);
  return static_cast<double>(groups.rows_per_block + cuda_partial_depth(groups.num_blocks));
}

// The error bounds of the forward pass. They hold on a GPU too, because no implementation uses more additions per sum than row_sum_depth.
// All terms of the sum of squares are positive, so the relative error of the sum is at most the number of additions times the unit
// roundoff, and the square root halves this error.
inline double rms_rstd_relative_error(int64_t C) {
  return 1.01 * (0.5 * (row_sum_depth(C) + 3.0) + 3.0) * kRoundoffF32;
}
inline double rms_norm_fwd_error_bound(double y, int64_t C, DType stored) {
  return std::abs(y) * (rms_rstd_relative_error(C) + 2.02 * kRoundoffF32) + store_error_bound(stored, y);
}
// Returns the error bound of an element of d_x. `mean_abs` is the mean of |g x_hat| over the vector that contains the element.
inline double rms_norm_bwd_error_bound(double rstd, double g, double x_hat, double mean_abs, double d_x,
                                       int64_t C, DType stored) {
  const double error = 4.0 * std::abs(g) + std::abs(x_hat) * (row_sum_depth(C) + 10.0) * mean_abs;
  return 1.01 * kRoundoffF32 * std::abs(rstd) * error + store_error_bound(stored, d_x);
}

}  // namespace plimsoll
