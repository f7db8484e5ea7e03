// The problem descriptions by which the kernel catalog selects embedding kernels, and the scratch memory of these kernels: the host-only
// part of the contracts in embedding.h and sort_ids.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// Describes a call of embedding_sum_fwd or embedding_bwd to the kernel catalog.
struct EmbeddingProblem {
  int64_t tokens = 0;   // number of tokens, called T in embedding.h
  int64_t columns = 0;  // number of columns of the table, called C in embedding.h
};
// Describes a call of sort_ids to the kernel catalog.
struct SortIdsProblem {
  int64_t tokens = 0;     // number of tokens per list of ids, called T in sort_ids.h
  int64_t rows = 0;       // number of rows of the largest table, called V in sort_ids.h
  int64_t num_lists = 0;  // number of lists of ids, one per table
};

// The scratch memory of sort_ids on a CPU. It contains, for each id, the position of the next token with this id.
constexpr int64_t sort_ids_scratch_bytes(int64_t V) {
  return (V * 4 + 63) / 64 * 64;
}
// The scratch memory of sort_ids on a GPU. Between the passes of the sort, it contains the (id, token) pairs of each list.
constexpr int64_t sort_ids_cuda_scratch_bytes(int64_t T, int64_t num_lists) {
  return num_lists * T * 8;
}

// On a GPU, embedding_bwd divides the sorted tokens into pieces of kEmbeddingPiece tokens or more. The scratch memory contains two rows of
// fp32 per piece: the sums of its first and of its last id, whose tokens may continue in the neighbouring pieces.
inline constexpr int64_t kEmbeddingPiece = 32;
constexpr int64_t embedding_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  const int64_t pieces = (T + kEmbeddingPiece - 1) / kEmbeddingPiece;
  return 2 * pieces * ((C + 3) / 4 * 4) * 4;
}

namespace catalog_rows {
int64_t sort_ids_cpu_scratch(const SortIdsProblem& problem);
int64_t sort_ids_cuda_scratch(const SortIdsProblem& problem);
int64_t embedding_bwd_cuda_scratch(const EmbeddingProblem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
