// The last product of a classifier and its softmax cross-entropy loss over chunks of rows, and its gradients:
// contracts. No graph, no allocation while it runs. Logits exist for chunk_rows rows at a time, in the
// scratch; those of gradients compute them again. It is made of the kernels of matmul.h,
// softmax_cross_entropy.h, element_wise/cast.h and element_wise/add.h (bias_grad), whose contracts hold for
// the parts.
//
// Shape letters: B rows, H width, K classes; dense, row-major. With z = x w^T + bias, rounded to the type of
// x:
//   loss      = softmax_cross_entropy(z, labels)           (softmax_cross_entropy.h)
//   d_z       = its gradient, rounded to the type of x
//   bwd:  d_x_BH = d_z w
//   grad: d_w_KH (+)= d_z^T x,  d_bias_K (+)= column sums of d_z
// Source: the chain rule; chunks of rows as in "Cut Your Losses in Large-Vocabulary Language Models" (Wijmans
// et al., arXiv 2411.09009), whose point is the same though its kernels are others.
//
// Types: x f32, or bf16 with w of bf16 or f32 (which is rounded to bf16); on a GPU f16 too, and w of the type
// of x. d_w f32 or the type of x; d_bias f32; the reference takes any floating types. denominator, loss and
// d_loss f32 or f64; labels i32 below K, negative ones ignored.
// Accumulation: the loss in f64 over rows and chunks, rounded once. d_w and d_bias are summed within a chunk
// as their kernels do, and chunk after chunk, in order, in their own type: a 16-bit d_w is rounded once a
// chunk.
// Error: of a row's loss and of d_z, linear_cross_entropy_row_error() and
// linear_cross_entropy_d_logit_error() below; of a sum over rows, what matmul_error_bound() says of B terms
// more than are in a chunk. The loss has the bits of the unchunked kernels where the products of a chunk's
// rows have those of all; d_w and d_bias have not: they are the same sums in another order. Aliasing: none.
// Scratch: linear_cross_entropy_*_scratch of loss_catalog.h, aligned to 64 bytes (GPU: 256). Repeatability: as
// matmul.h: the same bits for the same problem, number of threads, CPU and library; on a GPU in every run.
// Cost: 2 BHK FLOPs for the loss, 4 BHK for d_x and 4 BHK for d_w. Each chunk reads w, a second time for d_x,
// and for d_w reads and writes that from the second chunk on.
// Thread-safety: a prepared object runs one call at a time. Ownership: views borrow.
#pragma once

#include <memory>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

struct LinearCrossEntropyFwdArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};  // null without bias
  ConstView labels_B = {};
  ConstView denominator = {};  // 1 element, > 0
  View loss = {};              // 1 element
  std::span<std::byte> scratch = {};
};

struct LinearCrossEntropyBwdArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};  // 1 element
  View d_x_BH = {};
  std::span<std::byte> scratch = {};
};

struct LinearCrossEntropyGradArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};
  View d_w_KH = {};  // each may be null: it is not computed
  View d_bias_K = {};
  Accumulate accumulate = Accumulate::kOverwrite;  // whether d_w and d_bias are added to
  std::span<std::byte> scratch = {};
};

// Bound on the absolute error of a row's loss, where every logit is off by at most `logit_error`: the
// logarithm of the sum of exponentials moves by no more than they do, and so does the label's logit.
constexpr double linear_cross_entropy_row_error(int64_t num_classes, double logit_error) {
  return 2.0 * logit_error + softmax_cross_entropy_row_error(num_classes);
}
// The same of one element of d_z, scale = |d_loss / denominator|, without its store. Requires: logit_error <=
// 1/8: exp(2 e) - 1 <= 2.3 e.
constexpr double linear_cross_entropy_d_logit_error(int64_t num_classes, double logit_error, double scale) {
  return 2.3 * logit_error * scale + softmax_cross_entropy_bwd_error(num_classes, scale);
}

// Plain references: the same chunks by the plain references of their parts.
void linear_cross_entropy_fwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyFwdArgs& args);
void linear_cross_entropy_bwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyBwdArgs& args);
void linear_cross_entropy_grad_ref(const LinearCrossEntropyProblem& problem,
                                   const LinearCrossEntropyGradArgs& args);

// For which everything is decided, compiled and allocated beforehand. Requires of run(): args as the problem
// says. Errors: as PreparedMatmul.
template <typename Args>
class PreparedLossChunks {
 public:
  virtual ~PreparedLossChunks() = default;
  virtual void run(const Args& args) = 0;
};
// Errors and cost: as prepare_matmul_cpu().
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cpu(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cpu(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cpu(
    const LinearCrossEntropyProblem& problem);

// Calls body(first row, number of rows) for every chunk, in order.
template <typename Body>
void for_each_loss_chunk(int64_t rows, int64_t chunk_rows, Body&& body) {
  for (int64_t first = 0; first < rows; first += chunk_rows) {
    body(first, chunk_rows < rows - first ? chunk_rows : rows - first);
  }
}

// Element `first` of a view and what follows it; null stays null.
template <typename AnyView>
AnyView view_from(AnyView view, int64_t first) {
  if (!view) return view;
  using Bytes = std::remove_pointer_t<decltype(view.data)>;
  using Byte = std::conditional_t<std::is_const_v<Bytes>, const std::byte, std::byte>;
  view.data = static_cast<Byte*>(view.data) + first * dtype_bytes(view.dtype);
  return view;
}

// The functions below run on an NVIDIA GPU. cuBLASLt computes the products, and the loss is by
// softmax_cross_entropy.h on logits of the type of x. Views hold device memory, and
// what is prepared may be captured in a CUDA graph and replayed.
//
// Chunks have linear_cross_entropy_cuda_chunk_rows() rows. The loss is the sum of all rows' losses in the
// order of softmax_cross_entropy_fwd_cuda. Products of fp32 operands are plain or rounded to TF32, never
// three products: splitting w would take three times its memory again. Thread-safety and ownership: as
// matmul_cuda.h. Errors: as prepare_matmul_cuda().

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
