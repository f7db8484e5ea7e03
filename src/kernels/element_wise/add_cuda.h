// The kernels of add.h on an NVIDIA GPU. Host-only header; the views of the arguments hold device pointers.
//
// Common to the CUDA kernels of all families: a call only launches, on the given stream, and can be captured
// in a CUDA graph; what the CPU's caller reads before a call (flags, seeds, counts) is read by the kernel
// from device memory. Activations are f32, bf16 or f16 (all of one type), parameters f32 or 16 bits, whatever
// the activations are; arithmetic is fp32 with one rounding at the store. Nothing is added by floating-point
// atomics: sums run in an order that the shape alone decides, so every run on every card of one architecture
// gives the same bits. Accesses are 16 bytes wide where the pointers and the number of columns allow it.
// Thread-safe: distinct calls may run at once. Ownership: views borrow until the stream has run the call.
// Errors: kInternal if a view is absent or of another type; kDevice if the launch is refused.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"

namespace plimsoll {

// `b` may be of another type than `a` and `c`.
void add_fwd_cuda(const AddFwdArgs& args, CudaStream stream);

// c = a + b where *accumulate is not 0, else c = b, which may be of another type than a and c. Aliasing and
// cost: as add_fwd.
void accumulate_cuda(const AddFwdArgs& args, const int32_t* accumulate, CudaStream stream);

void bias_add_fwd_cuda(const BiasAddFwdArgs& args, CudaStream stream);

// Adds to d_b where *accumulate is not 0; with a null pointer args.accumulate decides. Error: of d_b,
// column_sum_cuda_error_bound. Scratch: bias_grad_cuda_scratch_bytes, aligned to 16.
void bias_grad_cuda(const BiasGradArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_grad_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

// As column_sum_error_bound, for the order in which the GPU adds.
inline double column_sum_cuda_error_bound(int64_t T, int64_t C, double magnitudes, double term_errors,
                                          double sum, DType stored) {
  return column_sum_cuda_depth(T, C) * kRoundoffF32 * magnitudes + term_errors +
         store_error_bound(stored, sum);
}

}  // namespace plimsoll
