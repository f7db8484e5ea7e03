// The gradient of a table of embeddings on a GPU, in three launches: sort the tokens by id; add up pieces of
// the sorted tokens, and write zeros to the rows without one where the table is not added to; add up the
// pieces of ids that have several. Only for .cu files. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/embedding/catalog.h"

namespace plimsoll::cuda {

struct EmbeddingBwd {
  ConstView d_x = {};  // [T, C]
  const int32_t* ids = nullptr;
  float* d_table = nullptr;  // [num_rows, C]: rows [first_row, first_row + num_rows) of the table
  int64_t T = 0;
  int64_t C = 0;
  int64_t V = 0;  // rows of the table
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t padding_id = -1;
  Integer num_tokens = {};
  AddFlag add = {};
  void* scratch = nullptr;  // embedding_bwd_cuda_scratch_bytes(T, C)
};
void launch_embedding_bwd(const EmbeddingBwd& operands, CudaStream stream);

// Tokens in the order of their ids: (id, token) pairs. Tokens without a gradient (unused ones and padding)
// have the id V and come last.
struct SortedTokens {
  int2* pairs = nullptr;  // [T]

  __device__ __forceinline__ int32_t id(int64_t i) const { return pairs[i].x; }
};
// Sorts by least significant digits, stable, from one half of the scratch to the other and back; gives the
// half that holds the result.
SortedTokens launch_sort_by_id(const EmbeddingBwd& operands, const SortedTokens (&halves)[2],
                               CudaStream stream);

}  // namespace plimsoll::cuda
