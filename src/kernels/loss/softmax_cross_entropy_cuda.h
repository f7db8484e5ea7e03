// The kernels of softmax_cross_entropy.h on an NVIDIA GPU; element_wise/add_cuda.h says what holds for all
// CUDA kernels. Host-only header. Logits and d_logits are f32, bf16 or f16, both of one type; row_loss is
// f32; denominator, loss and d_loss, in device memory, are f32 or f64. Labels that are too large are not
// noticed: the caller validated them. Errors against the reference: the bounds of softmax_cross_entropy.h,
// plus the rounding of the store.
#pragma once

#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

// Scratch: row_loss_cuda_scratch_bytes(num_rows), aligned to 8. args.accumulate decides whether loss is added
// to.
void softmax_cross_entropy_fwd_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
// Its two halves, for rows that come in parts: the rows' losses into the scratch, and the loss of so many of
// them, which reads no logits.
void softmax_cross_entropy_rows_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
void softmax_cross_entropy_total_cuda(const SoftmaxCrossEntropyFwdArgs& args, CudaStream stream);
void softmax_cross_entropy_bwd_cuda(const SoftmaxCrossEntropyBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
