// The kernels of add.h on an NVIDIA GPU. Host-only header; the views of the arguments hold device pointers.
//
// For the CUDA kernels of all families: a call only enqueues work on the given stream and can be captured in
// a CUDA graph. Values that the caller of a CPU kernel passes by value (flags, seeds, counts) are read by the
// GPU kernel from device memory. Activations are f32, bf16 or f16 (all of one type); parameters are f32 or 16
// bits, whatever the type of the activations. Arithmetic is fp32 with one rounding when storing. There are no
// floating-point atomics: the order of each sum depends only on the shape, so every run on every card of one
// architecture gives the same bits. Accesses are 16 bytes wide if the pointers and the number of columns
// allow it. Thread-safe: distinct calls may run concurrently. Ownership: views borrow until the stream has
// executed the call. Errors: kInternal if a view is absent or has an unsupported type; kDevice if the launch
// fails.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"

namespace plimsoll {

// `b` may have another type than `a` and `c`.
void add_fwd_cuda(const AddFwdArgs& args, CudaStream stream);

// Computes c = a + b if *accumulate is not 0, otherwise c = b; b may have another type than a and c. Aliasing
// and cost: as for add_fwd.
void accumulate_cuda(const AddFwdArgs& args, const int32_t* accumulate, CudaStream stream);

void bias_add_fwd_cuda(const BiasAddFwdArgs& args, CudaStream stream);

// Adds to d_b if *accumulate is not 0; with a null pointer args.accumulate decides. Error of d_b:
// column_sum_cuda_error_bound. Scratch: bias_grad_cuda_scratch_bytes, aligned to 16.
void bias_grad_cuda(const BiasGradArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_grad_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

// Returns column_sum_error_bound for the order in which the GPU adds.
inline double column_sum_cuda_error_bound(int64_t T, int64_t C, double magnitudes, double term_errors,
                                          double sum, DType stored) {
  return column_sum_cuda_depth(T, C) * kRoundoffF32 * magnitudes + term_errors +
         store_error_bound(stored, sum);
}

}  // namespace plimsoll
