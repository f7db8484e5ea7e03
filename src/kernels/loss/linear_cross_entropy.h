// This header states the contracts of the kernels that compute the last matrix product of a classifier and its softmax cross-entropy
// loss over chunks of rows, and the gradients. The kernels do not allocate memory while they run. Logits exist only for chunk_rows rows
// at a time, in scratch memory; the gradient kernels compute them again. The implementation combines the kernels of matmul.h,
// softmax_cross_entropy.h, count_correct.h, element_wise/cast.h and element_wise/add.h (bias_grad), whose contracts apply to these
// parts.
//
// Shape letters: B rows, H columns of x (the hidden size), K classes; dense, row-major. With z = x w^T + bias, rounded to the type of
// x:
//   loss      = softmax_cross_entropy(z, labels)           (softmax_cross_entropy.h), with its z-loss
//   correct   = count_correct(z, labels), if it is wanted  (count_correct.h)
//   d_z       = the gradient of the loss with respect to z, rounded to the type of x
//   bwd:  d_x_BH = d_z w
//   grad: d_w_KH = (or +=) d_z^T x,  d_bias_K = (or +=) column sums of d_z
//   with_gradients: the loss and the results of bwd and grad, with the same bits; z is computed once instead of three times
// If the classes are divided among tensor-parallel ranks (LinearCrossEntropyProblem::columns), K are the classes of a rank, and with the
// formulas of class_sums.h:
//   sums      = class_sums(z, labels)  instead of the loss
//   d_z       = class_sums_bwd(z, labels, d_sums), rounded to the type of x; with_gradients computes no sums
// Source: the chain rule; chunks of rows as in "Cut Your Losses in Large-Vocabulary Language Models" (Wijmans
// et al., arXiv 2411.09009), which also avoids storing all logits, but with other kernels.
//
// Types: x is f32, or bf16 with w of bf16 or f32 (which is rounded to bf16); on a GPU also f16, with w of the type of x. d_w is f32 or the
// type of x; d_bias is f32; the reference takes any floating types. denominator, loss and d_loss are f32 or f64; labels are i32 below K,
// negative ones are ignored. Accumulation: the loss is summed in f64 over rows and chunks and rounded once. d_w and d_bias are summed
// within a chunk by their kernels, and then chunk after chunk in order, in their own type; a 16-bit d_w is rounded once per chunk. Error of
// a row's loss and of d_z: linear_cross_entropy_row_error() and linear_cross_entropy_d_logit_error() below. Error of a sum over rows:
// matmul_error_bound() for as many terms as B plus the rows of a chunk. The loss has the bits of the unchunked kernels if the products of a
// chunk's rows have the bits of the whole product; d_w and d_bias do not, because they add the same terms in another order. Aliasing: none.
// Scratch: linear_cross_entropy_*_scratch of loss_catalog.h, aligned to 64 bytes (GPU: 256). Repeatability: as in matmul.h: the same bits
// for the same problem, number of threads, CPU and library; on a GPU in every run. Cost: 2 BHK FLOPs for the loss, 4 BHK for d_x and 4 BHK
// for d_w; 6 BHK for all together. Each chunk reads w (twice for d_x); from the second chunk on d_w is read and written. Thread-safety: a
// prepared object runs one call at a time. Ownership: views do not own memory.
#pragma once

#include <memory>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/loss/class_sums.h"
#include "kernels/loss/count_correct.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

struct LinearCrossEntropyFwdArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};  // null if the layer has no bias
  ConstView labels_B = {};
  ConstView denominator = {};  // one positive element, by which the loss is divided
  View loss = {};              // one element: the loss of all rows
  View z_loss = {};            // one element: the z-loss, a part of the loss; null if it is not to be stored
  // One i32 element: the number of correct predictions; null if they are not to be counted.
  View num_correct = {};
  // Used if the classes are divided among ranks: receives the class sums (class_sums.h) instead of loss, z_loss and num_correct.
  View sums_BS = {};
  ClassShare share = {};
  std::span<std::byte> scratch = {};
};

struct LinearCrossEntropyBwdArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};  // one element: the gradient with respect to the loss
  // Used instead of d_loss and the denominator if the classes are divided among ranks: gradients of the class sums (class_sums.h).
  ConstView d_sums_BS = {};
  ClassShare share = {};
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
  // Used instead of d_loss and the denominator if the classes are divided among ranks: gradients of the class sums (class_sums.h).
  ConstView d_sums_BS = {};
  ClassShare share = {};
  View d_w_KH = {};  // null if the gradient of the weight is not to be computed
  View d_bias_K = {};
  // States whether d_w and d_bias are added to their destinations.
  Accumulate accumulate = Accumulate::kOverwrite;
  std::span<std::byte> scratch = {};
};

struct LinearCrossEntropyWithGradientsArgs {
  ConstView x_BH = {};
  ConstView w_KH = {};
  ConstView bias_K = {};
  ConstView labels_B = {};
  ConstView denominator = {};
  ConstView d_loss = {};
  // Used instead of d_loss and the denominator if the classes are divided among ranks: gradients of the class sums (class_sums.h).
  ConstView d_sums_BS = {};
  ClassShare share = {};
  View loss = {};    // one element: the loss of all rows
  View z_loss = {};  // one element: the z-loss, a part of the loss; null if it is not to be stored
  View d_x_BH = {};  // null if the gradient of x is not to be computed
  View d_w_KH = {};  // null if the gradient of the weight is not to be computed
  View d_bias_K = {};
  // States whether d_w and d_bias are added to their destinations.
  Accumulate accumulate = Accumulate::kOverwrite;
  std::span<std::byte> scratch = {};
};

// Returns a bound on the absolute error of a row's loss if every logit has an error of at most `logit_error`:
// the logarithm of the sum of exponentials changes by no more than that, and so does the label's logit.
constexpr double linear_cross_entropy_row_error(int64_t num_classes, double logit_error) {
  return 2.0 * logit_error + softmax_cross_entropy_row_error(num_classes);
}
// Returns a bound on the error of one element of d_z before it is rounded to the type in which it is stored, with scale = |d_loss /
// denominator|. A z-loss multiplies the probability by a factor that contains log Z and therefore its error. Requires: logit_error <= 1/8,
// so that exp(2 e) - 1 <= 2.3 e for e = logit_error.
constexpr double linear_cross_entropy_d_logit_error(int64_t num_classes, double logit_error, double scale,
                                                    const ZLossBound& z = {}) {
  return (2.3 * logit_error * z.gradient_factor() + 2.0 * z.coefficient * logit_error) * scale +
         softmax_cross_entropy_bwd_error(num_classes, scale, z);
}

// The references process the same chunks as the fast kernels. Where a fast kernel calls another kernel, its reference calls the reference
// of that kernel.
void linear_cross_entropy_fwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyFwdArgs& args);
void linear_cross_entropy_bwd_ref(const LinearCrossEntropyProblem& problem,
                                  const LinearCrossEntropyBwdArgs& args);
void linear_cross_entropy_grad_ref(const LinearCrossEntropyProblem& problem,
                                   const LinearCrossEntropyGradArgs& args);
void linear_cross_entropy_with_gradients_ref(const LinearCrossEntropyProblem& problem,
                                             const LinearCrossEntropyWithGradientsArgs& args);

// A computation that is ready to run: its matrix products are chosen and compiled, and its memory is allocated. Requires: the arguments of
// run() have the shapes and types of the problem. Errors: as PreparedMatmul.
template <typename Args>
class PreparedLossChunks {
 public:
  virtual ~PreparedLossChunks() = default;
  virtual void run(const Args& args) = 0;
};
// Prepare the computations on a CPU. Errors and cost: as for prepare_matmul_cpu().
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cpu(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cpu(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cpu(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<PreparedLossChunks<LinearCrossEntropyWithGradientsArgs>>
prepare_linear_cross_entropy_with_gradients_cpu(const LinearCrossEntropyProblem& problem);

// Calls body(first row, number of rows) for every chunk, in order.
template <typename Body>
void for_each_loss_chunk(int64_t rows, int64_t chunk_rows, Body&& body) {
  for (int64_t first = 0; first < rows; first += chunk_rows) {
    body(first, chunk_rows < rows - first ? chunk_rows : rows - first);
  }
}

// Returns the part of the view that starts at element `first`, or a null view if the view is null.
template <typename AnyView>
AnyView view_from(AnyView view, int64_t first) {
  if (!view) return view;
  using Bytes = std::remove_pointer_t<decltype(view.data)>;
  using Byte = std::conditional_t<std::is_const_v<Bytes>, const std::byte, std::byte>;
  view.data = static_cast<Byte*>(view.data) + first * dtype_bytes(view.dtype);
  return view;
}

// Returns the arguments of count_correct for the chunk that begins at row `first`. Chunks after the first one add to the count.
inline CountCorrectArgs count_of_chunk(const LinearCrossEntropyFwdArgs& args, ConstView logits, int64_t first,
                                       int64_t rows, int64_t classes) {
  return {.logits_BK = logits,
          .labels_B = view_from(args.labels_B, first),
          .count = args.num_correct,
          .num_rows = rows,
          .num_classes = classes,
          .accumulate = first > 0 ? Accumulate::kAdd : Accumulate::kOverwrite};
}

// Return the arguments of the two computations that replace the loss and its gradient if the classes are divided among ranks: the class
// sums of a chunk of rows, and the gradients that overwrite the logits of the chunk.
inline ClassSumsArgs class_sums_of_chunk(const LinearCrossEntropyProblem& problem,
                                         const LinearCrossEntropyFwdArgs& args, ConstView logits,
                                         int64_t row_stride, int64_t first, int64_t rows) {
  return {.logits_BK = logits,
          .labels_B = view_from(args.labels_B, first),
          .sums_BS = view_from(args.sums_BS, first * problem.columns.size()),
          .num_rows = rows,
          .row_stride = row_stride,
          .share = args.share,
          .columns = problem.columns};
}
template <typename Args>
ClassSumsBwdArgs class_sums_bwd_of_chunk(const LinearCrossEntropyProblem& problem, const Args& args,
                                         View logits, int64_t row_stride, int64_t first, int64_t rows) {
  return {.logits_BK = logits,
          .labels_B = view_from(args.labels_B, first),
          .d_sums_BS = view_from(args.d_sums_BS, first * problem.columns.size()),
          .d_logits_BK = logits,
          .num_rows = rows,
          .row_stride = row_stride,
          .num_columns = problem.classes,
          .share = args.share,
          .columns = problem.columns};
}

// The functions below run on an NVIDIA GPU. cuBLASLt computes the products; the loss comes from
// softmax_cross_entropy.h, on logits of the type of x. Views are in device memory, and a prepared computation
// may be captured in a CUDA graph and replayed.
//
// If the number of bytes in a row of the weight's transpose is not a multiple of 16, d_x is the sum of two products, and a 16-bit d_x is
// rounded twice. Chunks have linear_cross_entropy_cuda_chunk_rows() rows of linear_cross_entropy_cuda_logit_stride() elements. The loss is
// the sum of all rows' losses in the order of softmax_cross_entropy_fwd_cuda. fp32 operands are multiplied in fp32 or TF32, but never as
// three TF32 products, because the parts of w would need three times the memory of w. Thread-safety and ownership: as in matmul_cuda.h.
// Errors: as prepare_matmul_cuda().

template <typename Args>
class CudaLossChunks {
 public:
  virtual ~CudaLossChunks() = default;
  // Runs the computation on the stream. Adds the gradients of parameters to their destinations if `accumulate` points to device memory
  // that is not 0; if it is null, overwrites them. args.accumulate is ignored. *accumulate is 0 or the bits of 1.0f.
  virtual void run(const Args& args, const int32_t* accumulate, CudaStream stream) = 0;
};

std::unique_ptr<CudaLossChunks<LinearCrossEntropyFwdArgs>> prepare_linear_cross_entropy_fwd_cuda(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<CudaLossChunks<LinearCrossEntropyBwdArgs>> prepare_linear_cross_entropy_bwd_cuda(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<CudaLossChunks<LinearCrossEntropyGradArgs>> prepare_linear_cross_entropy_grad_cuda(
    const LinearCrossEntropyProblem& problem);
std::unique_ptr<CudaLossChunks<LinearCrossEntropyWithGradientsArgs>>
prepare_linear_cross_entropy_with_gradients_cuda(const LinearCrossEntropyProblem& problem);

}  // namespace plimsoll
