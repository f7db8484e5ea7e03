// Sums of two tensors, of a tensor and a row, and of the rows of a tensor. The header states the contracts of these kernels, which allocate
// no memory.
//
// Legend: T rows (the tokens of a batch, then unused tail rows), C columns, row-major and dense. Thread-safe: distinct
// calls may run concurrently on distinct outputs. Ownership: views do not own memory.
//
// For all functions: _ref is plain loops in double and takes any floating type for each view. _cpu takes f32
// or bf16 activations (all of one type) and f32 or bf16 parameters. Errors: kInternal if a view is absent or
// has an unsupported type. Repeatability: the same bits for any number of threads on one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes c = a + b, element by element.
//   Aliasing: c may be a or b. Scratch: none. Cost: n FLOPs; 3n elements moved.
//   Error: add_fwd_error_bound (one rounding in fp32 and one when storing).
struct AddFwdArgs {
  ConstView a;  // first input, shape [n]
  ConstView b;  // second input, shape [n]
  View c;       // output, shape [n]
  int64_t n = 0;
};
void add_fwd_ref(const AddFwdArgs& args);
void add_fwd_cpu(const AddFwdArgs& args);
inline double add_fwd_error_bound(double c, DType stored) {
  return kRoundoffF32 * std::abs(c) + store_error_bound(stored, c);
}

// Computes c = a + b if `accumulate` is kAdd, otherwise c = b. a, b and c have one type; aliasing, scratch, cost and error
// are those of add_fwd.
struct AccumulateArgs : AddFwdArgs {
  Accumulate accumulate = Accumulate::kOverwrite;
};
void accumulate_ref(const AccumulateArgs& args);
void accumulate_cpu(const AccumulateArgs& args);

// Computes y[t, c] = x[t, c] + b[c].
//   Aliasing: y may be x. Scratch: none. Cost: T*C FLOPs; 2*T*C + C elements moved.
//   Error: add_fwd_error_bound.
struct BiasAddFwdArgs {
  ConstView x;  // input, shape [T, C]
  ConstView b;  // row that is added to each row of x, shape [C]
  View y;       // output, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
};
void bias_add_fwd_ref(const BiasAddFwdArgs& args);
void bias_add_fwd_cpu(const BiasAddFwdArgs& args);

// Computes d_b[c] = (or +=) sum over t of d_y[t, c]: the gradient of a row that was added to every row.
//   Accumulation: fp32. Rows are added in order within a block of row_blocks(T, C), four at a time, and then the
//   blocks in order. Rows of zeros contribute exactly zero. Aliasing: none. Scratch: bias_grad_scratch_bytes (the
//   reference needs none). d_b: f32, bf16, f16 or f64. Cost: T*C FLOPs; T*C + C elements moved, plus the scratch
//   twice. Error: column_sum_error_bound.
struct BiasGradArgs {
  ConstView d_y;  // gradient of y, shape [T, C]
  View d_b;       // output, the gradient of b, shape [C]
  View scratch;   // scratch memory of bias_grad_scratch_bytes(T, C) bytes, aligned to 4
  int64_t T = 0;
  int64_t C = 0;
  Accumulate accumulate = Accumulate::kOverwrite;
  int64_t row_stride = 0;  // distance in elements between rows of d_y (0 means C); used only on a GPU
};
void bias_grad_ref(const BiasGradArgs& args);
void bias_grad_cpu(const BiasGradArgs& args);
constexpr int64_t bias_grad_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_scratch_bytes(T, C, 1);
}

// Returns the error bound of a column sum. `magnitudes` is the sum of |terms|, plus the magnitude of the old output if the sum is added to
// it; `term_errors` is the sum of the terms' own errors.
inline double column_sum_error_bound(int64_t T, int64_t C, double magnitudes, double term_errors, double sum,
                                     DType stored) {
  return column_sum_depth(T, C) * kRoundoffF32 * magnitudes + term_errors + store_error_bound(stored, sum);
}

// The functions below run on an NVIDIA GPU. The views of the arguments hold device pointers.
//
// For the CUDA kernels of all families: a call only enqueues work on the given stream and can be captured in a CUDA graph. Values that the
// caller of a CPU kernel passes by value (flags, seeds, counts) are read by the GPU kernel from device memory. Activations are f32, bf16 or
// f16 (all of one type); parameters are f32 or 16 bits, whatever the type of the activations. Arithmetic is fp32 with one rounding when
// storing. There are no floating-point atomics: the order of each sum depends only on the shape, so every run on every GPU of one
// architecture gives the same bits. Accesses are 16 bytes wide if the pointers and the number of columns allow it. Thread-safe: distinct
// calls may run concurrently. Ownership: views do not own memory, which must exist until the stream has executed the call. Errors:
// kInternal if a view is absent or has an unsupported type; kDevice if the launch fails.

// Computes c = a + b. b may have another type than a and c.
void add_fwd_cuda(const AddFwdArgs& args, CudaStream stream);

// Computes c = a + b if *accumulate is not 0, otherwise c = b; b may have another type than a and c. It does not read
// args.accumulate. Aliasing and cost: as for add_fwd.
void accumulate_cuda(const AccumulateArgs& args, const int32_t* accumulate, CudaStream stream);

void bias_add_fwd_cuda(const BiasAddFwdArgs& args, CudaStream stream);

// Computes bias_grad on a GPU. Adds to d_b if *accumulate is not 0; if `accumulate` is null, args.accumulate decides. Error of d_b:
// column_sum_cuda_error_bound. Scratch: bias_grad_cuda_scratch_bytes, aligned to 16.
void bias_grad_cuda(const BiasGradArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_grad_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

// Returns the same error bound as column_sum_error_bound(), but for the order in which a GPU adds.
inline double column_sum_cuda_error_bound(int64_t T, int64_t C, double magnitudes, double term_errors,
                                          double sum, DType stored) {
  return column_sum_cuda_depth(T, C) * kRoundoffF32 * magnitudes + term_errors +
         store_error_bound(stored, sum);
}

}  // namespace plimsoll
