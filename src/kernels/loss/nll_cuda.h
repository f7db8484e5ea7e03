// The kernels of nll.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA kernels.
// Host-only header. The [B,K] view is f32, bf16 or f16; denominator, loss and d_loss, in device memory, are
// f32 or f64. Labels that are too large are not noticed: the caller validated them.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/nll.h"

namespace plimsoll {

// Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8.
void nll_fwd_cuda(const NllFwdArgs& args, CudaStream stream);
void nll_bwd_cuda(const NllBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
