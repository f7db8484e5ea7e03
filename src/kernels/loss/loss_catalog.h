// The scratch memory of the loss kernels: the host-only part of their contracts. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

// On a GPU: each row's loss as an f64, until one block adds them.
constexpr int64_t row_loss_cuda_scratch_bytes(int64_t num_rows) {
  return num_rows * 8;
}

// The last product of a classifier and its loss, over chunks of rows: linear_cross_entropy.h.
// Requires: rows, chunk_rows, hidden, classes >= 1.
struct LinearCrossEntropyProblem {
  int64_t rows = 0;        // B
  int64_t chunk_rows = 0;  // more than there are: one chunk
  int64_t hidden = 0;      // H
  int64_t classes = 0;     // K
  DType x = DType::kF32;   // of logits too
  DType w = DType::kF32;   // on a CPU f32 beside bf16 x: rounded
  DType d_w = DType::kF32;
  DType bias_dtype = DType::kF32;
  MatmulBias bias = MatmulBias::kNone;
  double label_smoothing = 0.0;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  Fp32Products fp32 = Fp32Products::kF32;             // not kTf32x3
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // on a GPU, of each product
};

// What one kernel of it computes: the loss; d_x; d_w and d_bias.
enum class LossPart : uint8_t { kLoss, kInput, kParameters };

// The products of a chunk of so many rows.
struct LossChunkProducts {
  MatmulProblem logits;  // x w^T + bias
  MatmulProblem d_w;     // d_logits^T x, overwriting or added
  MatmulProblem d_x;     // d_logits w
};
// `w`: the type in which a weight is read, where that is a copy.
LossChunkProducts loss_chunk_products(const LinearCrossEntropyProblem& problem, int64_t rows, DType w);

// Where the parts of the scratch begin, in bytes; parts that a kernel does without have no bytes.
struct LinearCrossEntropyScratch {
  int64_t losses = 0;     // forward: the sum so far (f64), on a GPU one f64 a row
  int64_t narrow = 0;     // a chunk of logits in the type of x, where `wide` is another
  int64_t wide = 0;       // a chunk of logits as the loss reads them
  int64_t weight = 0;     // w in the type of x
  int64_t workspace = 0;  // of products and column sums
  int64_t workspace_bytes = 0;
  int64_t bytes = 0;
};
LinearCrossEntropyScratch linear_cross_entropy_ref_scratch(const LinearCrossEntropyProblem& problem);
LinearCrossEntropyScratch linear_cross_entropy_cpu_scratch(const LinearCrossEntropyProblem& problem,
                                                           LossPart part);
LinearCrossEntropyScratch linear_cross_entropy_cuda_scratch(const LinearCrossEntropyProblem& problem,
                                                            LossPart part);

// Whether the CPU's kernels round w once for all chunks: where it is f32 beside bf16 x and chunks have so few
// rows that products do not bring it into a layout of their own in any case.
bool linear_cross_entropy_copies_weight(const LinearCrossEntropyProblem& problem);
// Rows of a GPU's chunks: chunk_rows rounded up so that every chunk of x begins at a multiple of 256 bytes,
// which cuBLASLt takes for granted.
int64_t linear_cross_entropy_cuda_chunk_rows(const LinearCrossEntropyProblem& problem);

}  // namespace plimsoll
