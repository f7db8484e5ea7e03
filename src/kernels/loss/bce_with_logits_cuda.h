// The kernels of bce_with_logits.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all CUDA
// kernels. Host-only header. The [B,K] views are each f32, bf16 or f16; denominator, loss and d_loss, in
// device memory, are f32 or f64. The number of real rows is the one element (i32 or i64) of `num_real_rows`
// in device memory; with a null view it is args.num_real_rows.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/loss_catalog.h"

namespace plimsoll {

// Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8.
void bce_with_logits_fwd_cuda(const BceWithLogitsFwdArgs& args, ConstView num_real_rows, CudaStream stream);
void bce_with_logits_bwd_cuda(const BceWithLogitsBwdArgs& args, ConstView num_real_rows, CudaStream stream);

}  // namespace plimsoll
