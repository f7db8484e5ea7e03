// Bias, dropout, residual and layer normalization in one pass over memory, forward and backward. In a transformer block with post-norm,
// these operations follow the attention and the feed-forward layer. Without bias, dropout and residual it is plain layer normalization. The
// header states the contracts of these kernels, which allocate no memory.
//
//   forward:  s = residual + dropout(x + bias); x_hat, rstd = normalize(s); y = x_hat * gain + beta
//   backward: g = d_y + d_y2; d_s = normalize_bwd(g * gain) + d_sum_term; d_x = dropout mask and scale applied to d_s
//             d_residual = d_s; d_bias, d_gain, d_beta = (or +=) column sums of d_x, g * x_hat, g
//
// The result equals that of bias_add, dropout, add, normalize and scale_shift, one after the other. Sources: normalize.h, dropout.h.
//
// Legend: T rows (one per token, then unused tail rows), C columns, row-major and dense. Thread-safe: distinct calls may run
// concurrently on distinct outputs. Ownership: views do not own memory. The _ref functions are plain loops in double and take any floating
// type for each view. The _cpu functions take f32 or bf16 activations (all of one type), f32 or bf16 parameters (all of one type), f32 rstd
// and C <= kMaxNormColumns. They compute in fp32; s, g and d_s are not rounded to the activations' type between the steps; if s is an
// output, x_hat is computed from s as it is stored, so that the backward pass can compute x_hat again from s. Requires: 0 <= p < 1. Errors:
// kInternal if a required view is absent or has an unsupported type. Repeatability: the same bits for any number of threads on one
// instruction set; the random numbers of dropout are those of base/philox.h.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

// Computes the forward pass. Aliasing: y, x_hat and sum are distinct; each of them may be x or residual. Scratch: none. Cost: 12*T*C FLOPs
// (plus the mask, see dropout.h); 5*T*C + T + 3*C elements moved if every operand is present. Error of x_hat: normalize_fwd_error_bound
// with input_error from norm_input_error_bound. Error of y: |gain| times the error of x_hat, plus scale_shift_fwd_error_bound.
struct BiasDropoutResidualNormFwdArgs {
  ConstView x;         // input, shape [T, C]
  ConstView bias;      // bias that is added to x, shape [C]; may be null
  ConstView residual;  // residual that is added after dropout, shape [T, C]; may be null
  ConstView gain;      // gain of the norm, shape [C]
  ConstView beta;      // bias of the norm, shape [C]; null means zero
  View y;              // output, shape [T, C]
  View x_hat;          // output x_hat, shape [T, C]; null if no backward pass follows
  View rstd;           // output rstd, shape [T]; null if no backward pass follows
  View sum;            // output s, shape [T, C]; null if no other op reads it
  int64_t T = 0;
  int64_t C = 0;
  double eps = 1e-5;
  double p = 0.0;  // dropout probability; element (t, c) uses random number t * C + c
  RandomSite where;
};
void bias_dropout_residual_norm_fwd_ref(const BiasDropoutResidualNormFwdArgs& args);
void bias_dropout_residual_norm_fwd_cpu(const BiasDropoutResidualNormFwdArgs& args);
// Returns the error bound of s = residual + (x + bias) * scale: three roundings.
inline double norm_input_error_bound(double x_plus_bias, double scale, double s) {
  return 1.01 * kRoundoffF32 * (2.0 * std::abs(x_plus_bias) * scale + std::abs(s));
}

// Computes the backward pass. Rows in which d_y is zero give rows of zeros and contribute exactly zero to the parameters' gradients.
// Accumulation: fp32. Sums over a row are taken as in normalize.h. Sums over rows are taken in order within the blocks of rows of
// row_blocks(T, C), and the blocks are then added in order. Column sums use values before they are rounded to the activations' type.
// Aliasing: d_residual and d_x are distinct; each of them may be d_y, d_y2, d_sum_term or x_hat. With p = 0, d_residual and d_x are equal,
// so request only one of them. Scratch: bias_dropout_residual_norm_bwd_scratch_bytes (the reference needs none). Cost: 17*T*C FLOPs (plus
// the mask); 6*T*C + T elements moved if every operand is present, plus the scratch twice. Error of d_residual: normalize_bwd_error_bound
// with g * gain, plus one rounding if d_sum_term is added, plus the store. Error of d_x: that of d_residual times the dropout scale, plus
// one rounding. Error of the parameters' gradients: column_sum_error_bound.
struct BiasDropoutResidualNormBwdArgs {
  ConstView d_y;         // gradient of y, shape [T, C]
  ConstView d_y2;        // second gradient of y, shape [T, C], that is added to d_y first; may be null
  ConstView x_hat;       // output of the forward pass, shape [T, C]
  ConstView rstd;        // output rstd of the forward pass, shape [T]
  ConstView gain;        // gain of the norm, shape [C]
  ConstView d_sum_term;  // gradient of s from other ops that read s, shape [T, C]; may be null
  View d_residual;       // output, the gradient of s, shape [T, C]; may be null
  View d_x;              // output, the gradient of x, shape [T, C]; may be null
  View d_bias;           // output, the gradient of the bias, shape [C]; may be null
  View d_gain;           // output, the gradient of the gain, shape [C]; may be null
  View d_beta;           // output, the gradient of beta, shape [C]; may be null
  View scratch;          // scratch memory of bias_dropout_residual_norm_bwd_scratch_bytes(T, C) bytes
  int64_t T = 0;
  int64_t C = 0;
  double p = 0.0;
  RandomSite where;
  // States whether d_bias, d_gain and d_beta are overwritten or added to.
  Accumulate accumulate = Accumulate::kOverwrite;
};
void bias_dropout_residual_norm_bwd_ref(const BiasDropoutResidualNormBwdArgs& args);
void bias_dropout_residual_norm_bwd_cpu(const BiasDropoutResidualNormBwdArgs& args);
constexpr int64_t bias_dropout_residual_norm_bwd_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_scratch_bytes(T, C, 3);
}

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. A row is held in registers, so it has
// at most kMaxNormCudaColumns columns. rstd is f32. Errors against the reference: the bounds above, except for sums over rows, whose bound
// is norm_column_sum_cuda_depth times the unit roundoff and the sum of magnitudes.

// Computes the forward pass. The seed and the micro-batch number of dropout are rng[0] and rng[1] in device memory, and its site (a number
// that identifies the op) is args.where.site; if `rng` is null, all three come from args.where. The random numbers equal those of the CPU.
void bias_dropout_residual_norm_fwd_cuda(const BiasDropoutResidualNormFwdArgs& args, const int64_t* rng,
                                         CudaStream stream);

// Computes the backward pass. Adds to d_bias, d_gain and d_beta if *accumulate (in device memory) is not 0; if `accumulate` is null,
// args.accumulate decides. Scratch: bias_dropout_residual_norm_bwd_cuda_scratch_bytes, aligned to 16 bytes.
void bias_dropout_residual_norm_bwd_cuda(const BiasDropoutResidualNormBwdArgs& args, const int64_t* rng,
                                         const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_dropout_residual_norm_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return norm_bwd_cuda_scratch_bytes(T, C);
}

}  // namespace plimsoll
