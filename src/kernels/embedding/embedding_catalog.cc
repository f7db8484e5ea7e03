#include "kernels/embedding/embedding_catalog.h"

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

int64_t sort_ids_cpu_scratch(const Problem& problem) {
  return sort_ids_scratch_bytes(problem.dim("V"));
}

int64_t sort_ids_cuda_scratch(const Problem& problem) {
  return sort_ids_cuda_scratch_bytes(problem.dim("T"), problem.dim("tables"));
}

int64_t embedding_bwd_cuda_scratch(const Problem& problem) {
  return embedding_bwd_cuda_scratch_bytes(problem.dim("T"), problem.dim("C"));
}

}  // namespace plimsoll::catalog_rows
