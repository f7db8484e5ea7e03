// The gradient of a table of embeddings on a GPU, in these launches: sort the tokens by id, zero the table
// where it is not added to, add up pieces of the sorted tokens, add up the pieces of ids that have several.
// Only for .cu files. Thread-safe: no state.
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
  int32_t* ids = nullptr;     // [T]
  int32_t* tokens = nullptr;  // [T]
};
// Sorts by least significant digits, stable, from one half of `pairs` (4 arrays of T) to the other and back;
// gives the half that holds the result.
SortedTokens launch_sort_by_id(const EmbeddingBwd& operands, const SortedTokens (&halves)[2],
                               CudaStream stream);

}  // namespace plimsoll::cuda
