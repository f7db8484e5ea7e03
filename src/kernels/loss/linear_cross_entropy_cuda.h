// The kernels of linear_cross_entropy.h on an NVIDIA GPU: products by cuBLASLt, the loss by
// softmax_cross_entropy_cuda.h on logits of the type of x. Host-only header; views hold device memory, and
// what is prepared may be captured in a CUDA graph and replayed.
//
// Chunks have linear_cross_entropy_cuda_chunk_rows() rows. The loss is the sum of all rows' losses in the
// order of softmax_cross_entropy_fwd_cuda. Products of fp32 operands are plain or rounded to TF32, never
// three products: splitting w would take three times its memory again.
// Thread-safety and ownership: as matmul_cuda.h. Errors: as prepare_matmul_cuda().
#pragma once

#include <memory>

#include "device/cuda/stream.h"
#include "kernels/loss/linear_cross_entropy.h"

namespace plimsoll {

template <typename Args>
class CudaLossChunks {
 public:
  virtual ~CudaLossChunks() = default;
  // Gradients of parameters are added to what is there where `accumulate` points to device memory that is not
  // 0 (args.accumulate is not looked at); null: overwritten. It holds 0 or the bits of 1.0f.
  virtual void run(const Args& args, const int32_t* accumulate, CudaStream stream) = 0;
};

std::unique_ptr<CudaLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cuda(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<CudaLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cuda(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<CudaLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cuda(
    const LinearCrossEntropyProblem& problem);

}  // namespace plimsoll
