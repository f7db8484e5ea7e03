// Gain and bias per column: the affine part of layer normalization. The header states the contracts of these kernels, which allocate no
// memory.
//
// Legend: T rows (the tokens of a batch, then unused tail rows), C columns, row-major and dense. Thread-safe: distinct
// calls may run concurrently on distinct outputs. Ownership: views do not own memory. The _ref functions are plain
// loops in double and take any floating type for each view. The _cpu functions take f32 or bf16 activations (all of
// one type) and f32 or bf16 gain and bias (both of one type), and compute in fp32. Errors: kInternal if a view is
// absent or has an unsupported type. Repeatability: the same bits for any number of threads on one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes y[t, c] = x_hat[t, c] * gain[c] + bias[c]; an absent bias is zero.
//   Aliasing: y may be x_hat. Scratch: none. Cost: 2*T*C FLOPs; 2*T*C + 2*C elements moved.
//   Error: scale_shift_fwd_error_bound (valid for a fused and for a separate rounding of the product).
struct ScaleShiftFwdArgs {
  ConstView x_hat;  // input, shape [T, C]
  ConstView gain;   // gain, shape [C]
  ConstView bias;   // bias, shape [C]; may be null
  View y;           // output, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
};
void scale_shift_fwd_ref(const ScaleShiftFwdArgs& args);
void scale_shift_fwd_cpu(const ScaleShiftFwdArgs& args);
inline double scale_shift_fwd_error_bound(double product, double y, DType stored) {
  return kRoundoffF32 * (std::abs(product) + std::abs(y)) + store_error_bound(stored, y);
}

// Computes d_x_hat[t, c] = d_y[t, c] * gain[c], d_gain[c] = (or +=) sum over t of d_y * x_hat, and d_bias[c]
// = (or +=) sum over t of d_y.
//   Accumulation: fp32, rows in order within a block of row_blocks(T, C), then blocks in order. For finite x_hat,
//   rows in which d_y is zero give zero and contribute exactly zero. Aliasing: d_x_hat may be d_y or x_hat.
//   Scratch: scale_shift_bwd_scratch_bytes (the reference needs none). Cost: 4*T*C FLOPs; 3*T*C + 3*C
//   elements moved, plus the scratch twice. Error of d_x_hat: add_fwd_error_bound (one rounding and the store).
//   Error of d_gain and d_bias: column_sum_error_bound; the terms of d_gain have an error of one rounding.
struct ScaleShiftBwdArgs {
  ConstView d_y;    // gradient of y, shape [T, C]
  ConstView x_hat;  // input of the forward pass, shape [T, C]
  ConstView gain;   // gain, shape [C]
  View d_x_hat;     // output, the gradient of x_hat, shape [T, C]
  View d_gain;      // output, the gradient of the gain, shape [C]
  View d_bias;      // output, the gradient of the bias, shape [C]; may be null
  View scratch;     // scratch memory of scale_shift_bwd_scratch_bytes(T, C) bytes
  int64_t T = 0;
  int64_t C = 0;
  Accumulate accumulate = Accumulate::kOverwrite;
};
void scale_shift_bwd_ref(const ScaleShiftBwdArgs& args);
void scale_shift_bwd_cpu(const ScaleShiftBwdArgs& args);
constexpr int64_t scale_shift_bwd_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_scratch_bytes(T, C, 2);
}

// The functions below run on an NVIDIA GPU. add.h states the rules for all CUDA kernels. Errors: the bounds
// above; for column sums, column_sum_cuda_error_bound of add.h.

void scale_shift_fwd_cuda(const ScaleShiftFwdArgs& args, CudaStream stream);

// Computes scale_shift_bwd on a GPU. Adds to d_gain and d_bias if *accumulate is not 0; if `accumulate` is null, args.accumulate decides.
// Scratch: scale_shift_bwd_cuda_scratch_bytes, aligned to 16.
void scale_shift_bwd_cuda(const ScaleShiftBwdArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t scale_shift_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 2);
}

}  // namespace plimsoll
