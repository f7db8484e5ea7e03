#include "kernels/embedding/embedding_catalog.h"

namespace plimsoll::catalog_rows {

int64_t sort_ids_cpu_scratch(const SortIdsProblem& problem) {
  return sort_ids_scratch_bytes(problem.rows);
}

int64_t sort_ids_cuda_scratch(const SortIdsProblem& problem) {
  return sort_ids_cuda_scratch_bytes(problem.tokens, problem.num_lists);
}

int64_t embedding_bwd_cuda_scratch(const EmbeddingProblem& problem) {
  return embedding_bwd_cuda_scratch_bytes(problem.tokens, problem.columns);
}

}  // namespace plimsoll::catalog_rows
