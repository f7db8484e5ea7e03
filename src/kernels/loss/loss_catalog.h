// The problem descriptions by which the kernel catalog selects loss kernels, and the scratch memory of these kernels: the host-only part of
// their contracts. A loss that reads whole logits is described by a RowsProblem. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "base/class_columns.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

// The scratch memory of a loss on a GPU. It contains the loss of each row as an f64 until one thread block adds them.
constexpr int64_t row_loss_cuda_scratch_bytes(int64_t num_rows) {
  return num_rows * 8;
}

// Describes a call of linear_cross_entropy.h to the kernel catalog: the last matrix product of a classifier and its loss, in chunks of
// rows. Requires: rows, chunk_rows, hidden, classes >= 1.
struct LinearCrossEntropyProblem {
  int64_t rows = 0;  // number of rows, called B in linear_cross_entropy.h
  // Number of rows per chunk. If it is larger than `rows`, all rows are one chunk.
  int64_t chunk_rows = 0;
  int64_t hidden = 0;     // hidden size, called H
  int64_t classes = 0;    // number of classes, called K
  DType x = DType::kF32;  // type of x and of the logits
  DType w = DType::kF32;  // type of the weight; on a CPU, an f32 weight is rounded to bf16 if x is bf16
  DType d_w = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;  // coefficient of the z-loss; if it is 0, there is no z-loss
  // Set if the classes are divided among tensor-parallel ranks: the forward kernels compute the sums of class_sums.h instead of the loss,
  // and the gradient kernels start from the gradients of these sums. `classes` are then those of a rank, with padding.
  ClassColumns columns = {};
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  // How fp32 products are computed on a GPU; kTf32x3 is not supported.
  Fp32Products fp32 = Fp32Products::kF32;
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // size of the workspace of each matrix product on a GPU

  constexpr bool is_divided() const { return columns.ranks > 0; }
};

// States the results that one kernel of linear_cross_entropy computes: the loss; d_x; d_w and d_bias; or the loss and all gradients.
enum class LossPart : uint8_t { kLoss, kInput, kParameters, kEverything };
constexpr bool computes_loss(LossPart part) {
  return part == LossPart::kLoss || part == LossPart::kEverything;
}
constexpr bool computes_d_x(LossPart part) {
  return part == LossPart::kInput || part == LossPart::kEverything;
}
constexpr bool computes_d_w(LossPart part) {
  return part == LossPart::kParameters || part == LossPart::kEverything;
}

// The matrix products for one chunk of rows.
struct LossChunkProducts {
  MatmulProblem logits;  // computes the logits x w^T + bias
  MatmulProblem d_w;     // computes d_logits^T x, which overwrites d_w or is added to it
  MatmulProblem d_x;     // computes d_x = d_logits w
};
// Returns the matrix products for a chunk of `rows` rows. `w` is the type of the weight that they read, which may be a converted copy.
// `logit_stride` is the distance in elements between two rows of logits; 0 means that rows are adjacent.
LossChunkProducts loss_chunk_products(const LinearCrossEntropyProblem& problem, int64_t rows, DType w,
                                      int64_t logit_stride = 0);

// The offset in bytes of each array in the scratch memory. An array that a kernel does not use has a size of 0 bytes.
struct LinearCrossEntropyScratch {
  int64_t losses = 0;    // f64: on a CPU the sum of the losses so far, on a GPU the loss of each row
  int64_t z_losses = 0;  // f64: the sum of the z-losses, or on a GPU the z-loss of each row
  int64_t narrow = 0;    // the logits of a chunk in the type of x, if the loss reads them in another type
  // Logits in the type that the loss reads: those of a chunk, or on a CPU one row per thread.
  int64_t wide = 0;
  int64_t weight = 0;  // a copy of w that was converted to the type of x
  // Copies of w in the layouts of the products for the logits and for d_x, if these read copies.
  int64_t logits_weight = 0;
  int64_t d_x_weight = 0;
  int64_t workspace = 0;  // scratch memory of the matrix products and of the column sums
  int64_t workspace_bytes = 0;
  int64_t bytes = 0;
};
LinearCrossEntropyScratch linear_cross_entropy_ref_scratch(const LinearCrossEntropyProblem& problem);
LinearCrossEntropyScratch linear_cross_entropy_cpu_scratch(const LinearCrossEntropyProblem& problem,
                                                           LossPart part);
LinearCrossEntropyScratch linear_cross_entropy_cuda_scratch(const LinearCrossEntropyProblem& problem,
                                                            LossPart part);

// Returns true if the CPU kernels convert w to bf16 once for all chunks. This is the case if w is f32, x is bf16, and chunks have so few
// rows that no matrix product copies w into its own layout anyway.
bool linear_cross_entropy_copies_weight(const LinearCrossEntropyProblem& problem);
// Returns the matrix products for a chunk of `rows` rows on a CPU. A product that would copy w into its own layout for every chunk reads a
// copy instead that is made once for all chunks.
LossChunkProducts linear_cross_entropy_cpu_products(const LinearCrossEntropyProblem& problem, int64_t rows);
// Returns the number of floats of scratch memory per thread that are needed to convert a row of bf16 logits to fp32.
constexpr int64_t cross_entropy_wide_row_floats(int64_t classes) {
  return (classes + 15) / 16 * 16;
}
// Returns the number of rows per chunk on a GPU: chunk_rows rounded up so that every chunk of x begins at a multiple of 256 bytes, which
// cuBLASLt assumes.
int64_t linear_cross_entropy_cuda_chunk_rows(const LinearCrossEntropyProblem& problem);
// Returns the distance in elements between two rows of logits on a GPU: the number of classes, rounded up so that a row has a multiple of
// kLogitRowBytes bytes. Adjacent rows of GPT-2's 50257 classes would begin at odd addresses, for which cuBLASLt has only slow algorithms.
int64_t linear_cross_entropy_cuda_logit_stride(const LinearCrossEntropyProblem& problem);
inline constexpr int64_t kLogitRowBytes = 128;

struct Problem;
namespace catalog_rows {
Support linear_cross_entropy_cpu_support(const LinearCrossEntropyProblem& loss);
Support linear_cross_entropy_cuda_support(const Problem& problem, const LinearCrossEntropyProblem& loss);
int64_t row_loss_cuda_scratch(const RowsProblem& rows);
int64_t linear_cross_entropy_fwd_cpu_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_bwd_cpu_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_grad_cpu_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_with_gradients_cpu_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_fwd_cuda_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_bwd_cuda_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_grad_cuda_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_with_gradients_cuda_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_plain_scratch(const LinearCrossEntropyProblem& loss);
int64_t linear_cross_entropy_cpu_library(const LinearCrossEntropyProblem& loss);
}  // namespace catalog_rows

}  // namespace plimsoll
