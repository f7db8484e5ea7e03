// Normalizes few rows of 16-bit elements on an NVIDIA GPU, as the decoding steps of a language model need it. rms_norm_fwd_cuda() and
// bias_dropout_residual_norm_fwd_cuda() use this kernel if it supports their operands, and kernels/matmul/norm_linear.h uses it for the norm
// before a layer. Thread-safe: no state. Views do not own memory.
//
//   s = x + norm_bias + residual, rounded to the type of x if it is stored     y = norm(s) gain + beta
//
// Shape letters: T rows, C columns; dense, row-major. Error and rounding are those of bias_dropout_residual_norm.h and rms_norm.h.
#pragma once

#include <cstdint>

#include "base/fused_layer.h"
#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct NormFewRowsArgs {
  ConstView x;          // input, shape [T, C], bf16 or f16
  ConstView residual;   // residual that is added before the norm, shape [T, C]; may be null
  ConstView norm_bias;  // bias that is added before the norm, shape [C]; may be null
  ConstView gain;       // [C]
  ConstView beta;       // bias of the norm, shape [C]; null means zero
  View y;               // output, shape [T, C]
  View sum;             // output s, shape [T, C]; null if no other op reads it
  int64_t T = 0;
  int64_t C = 0;
  double eps = 1e-5;
  NormKind norm = NormKind::kLayer;
  // True if no launch that may still run when this one starts writes norm_bias, gain or beta. They are then read before the previous
  // launches have ended (element_wise/cuda/early_launch.cuh).
  bool constant_parameters = false;
};

// The largest number of rows for which the other kernels use this one. It has a thread block per row and eight columns per thread, which is
// faster for few rows than the kernels for many rows, in which a thread has more columns: on an H200 a norm before a layer of 768 columns
// takes 1.7 instead of 3.9 us with 32 rows (bench/results/h200-2026-11-30.md).
inline constexpr int64_t kNormFewRows = 32;
// The largest number of columns: a thread block of 1024 threads with eight columns each.
inline constexpr int64_t kNormFewRowsColumns = 8192;

// Returns true if the kernel supports the operands: at most kNormFewRows rows of 16-bit elements, a multiple of eight columns, at most
// kNormFewRowsColumns, and addresses that are multiples of 16 bytes.
bool norm_few_rows_fit(const NormFewRowsArgs& args);

// Normalizes the rows. Aliasing: y and sum are distinct; each of them may be x or the residual. Scratch: none. Repeatability: a row depends
// only on the same rows of x and the residual, with the same bits for any number of rows. Requires: norm_few_rows_fit().
void norm_few_rows_cuda(const NormFewRowsArgs& args, CudaStream stream);

}  // namespace plimsoll
