// The mean of the rows of each sequence and its gradient: the pooling of encoders whose classifier reads all tokens. The header states the
// contract of these kernels, which allocate no memory.
//
//   S_b = cu_seqlens[b + 1] - cu_seqlens[b]
//   fwd:  y[b, c]   = (sum over the rows t of sequence b of x[t, c]) / S_b, or 0 if S_b is 0
//   bwd:  d_x[t, c] = d_y[b, c] / S_b for the rows of sequence b, and 0 for rows of no sequence
//
// Legend: T rows (one per token, then unused tail rows), C columns, B sequences (unused ones are empty); row-major and dense.
// cu_seqlens[B + 1] is i32. Types: f32 or bf16, equal or not; the references take any floating type and compute in double.
// Accumulation: fp32, over the rows in order on a CPU; on a GPU, each of kSequenceMeanParts partial sums adds every
// kSequenceMeanParts-th row in order, and then the partial sums are added in order. Error: sequence_mean_error_bound
// forward; one rounding and the store backward (sequence_mean_bwd_error_bound). Repeatability: the same bits for any
// number of threads on one instruction set; a result depends on the rows of its sequence only. Scratch: none. Aliasing:
// outputs overlap no operand. Cost: fwd T C additions, T C + B C elements moved; bwd T C divisions at most, T C elements
// written. Requires: cu_seqlens rises from 0 to at most T; the caller has validated it and the kernels do not check.
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. Errors:
// kInternal if a view is absent or has an unsupported type.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

struct SequenceMeanFwdArgs {
  ConstView x;           // input, shape [T, C]
  ConstView cu_seqlens;  // first row of each sequence and end of the last one, i32, shape [B + 1]
  View y;                // output, shape [B, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t B = 0;
};
void sequence_mean_fwd_ref(const SequenceMeanFwdArgs& args);
void sequence_mean_fwd_cpu(const SequenceMeanFwdArgs& args);

struct SequenceMeanBwdArgs {
  ConstView d_y;         // gradient of y, shape [B, C]
  ConstView cu_seqlens;  // first row of each sequence and end of the last one, i32, shape [B + 1]
  View d_x;              // output, the gradient of x, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t B = 0;
};
void sequence_mean_bwd_ref(const SequenceMeanBwdArgs& args);
void sequence_mean_bwd_cpu(const SequenceMeanBwdArgs& args);

// Returns a bound on the error of the mean of `rows` rows. Each term of their sum takes part in at most `rows` additions, and the division
// rounds once. `mean_abs` is the exact mean of the magnitudes, and `mean` is the exact mean.
inline double sequence_mean_error_bound(int64_t rows, double mean_abs, double mean, DType stored) {
  return 1.01 * kRoundoffF32 * (static_cast<double>(rows) * mean_abs + std::abs(mean)) +
         store_error_bound(stored, mean);
}
inline double sequence_mean_bwd_error_bound(double d_x, DType stored) {
  return kRoundoffF32 * std::abs(d_x) + store_error_bound(stored, d_x);
}

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. x and y, and d_y
// and d_x, may each be f32, bf16 or f16.
inline constexpr int kSequenceMeanParts = 8;

void sequence_mean_fwd_cuda(const SequenceMeanFwdArgs& args, CudaStream stream);
void sequence_mean_bwd_cuda(const SequenceMeanBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
