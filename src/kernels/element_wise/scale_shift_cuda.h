// The kernels of scale_shift.h on an NVIDIA GPU. add_cuda.h states the rules for all CUDA kernels. Host-only
// header. Errors: the bounds of scale_shift.h; for column sums, column_sum_cuda_error_bound of add_cuda.h.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/element_wise/scale_shift.h"

namespace plimsoll {

void scale_shift_fwd_cuda(const ScaleShiftFwdArgs& args, CudaStream stream);

// Adds to d_gain and d_bias if *accumulate is not 0; with a null pointer args.accumulate decides. Scratch:
// scale_shift_bwd_cuda_scratch_bytes, aligned to 16.
void scale_shift_bwd_cuda(const ScaleShiftBwdArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t scale_shift_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 2);
}

}  // namespace plimsoll
