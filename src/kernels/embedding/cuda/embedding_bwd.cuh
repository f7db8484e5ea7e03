// The gradient of an embedding table on a GPU, in two launches. The first divides the sorted tokens into pieces, sums each piece and,
// unless the gradient is added to the table, writes zeros to the rows without a token. The second joins the sums of ids whose tokens are in
// several pieces. For tables of two rows and 16-bit d_x there is another kernel: every block adds its share of the tokens to a sum for each
// of the two rows, and the sums of the blocks are then added, as in column_sums_kernel, which sums the rows of a matrix. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/embedding/embedding_catalog.h"

namespace plimsoll::cuda {

// The pairs (id, token), sorted by id. The unused rows of d_x after the last token also have pairs, with an id (kNoId) that no table
// contains; these pairs come last.
struct SortedTokens {
  const int2* pairs = nullptr;  // the sorted pairs, shape [T]

  __device__ __forceinline__ int32_t id(int64_t i) const { return pairs[i].x; }
};

struct EmbeddingBwd {
  ConstView d_x = {};  // gradient of the sums of rows, shape [T, C]
  SortedTokens sorted = {};
  float* d_table = nullptr;  // gradient of num_rows rows of the table from first_row on, shape [num_rows, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t V = 0;  // number of rows of the table
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t padding_id = -1;
  AddFlag add = {};
  float* partials = nullptr;  // scratch memory of embedding_bwd_cuda_scratch_bytes(T, C) bytes
};
void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream);

// Computes the gradient of a table of at most kTwoRows rows with 16-bit d_x, in two launches. Requires: rows of d_x and of the table begin
// and end at multiples of 16 bytes.
inline constexpr int kTwoRows = 2;
template <typename X>
void launch_two_rows(const EmbeddingBwd& operands, const X* d_x, CudaStream stream);

}  // namespace plimsoll::cuda
