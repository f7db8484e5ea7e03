#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {

int64_t one_column_sum_scratch(const Problem& problem) {
  return column_sums_scratch_bytes(problem.dim("T"), problem.dim("C"), 1);
}

int64_t two_column_sums_scratch(const Problem& problem) {
  return column_sums_scratch_bytes(problem.dim("T"), problem.dim("C"), 2);
}

int64_t one_column_sum_cuda_scratch(const Problem& problem) {
  return column_sums_cuda_scratch_bytes(problem.dim("T"), problem.dim("C"), 1);
}

int64_t two_column_sums_cuda_scratch(const Problem& problem) {
  return column_sums_cuda_scratch_bytes(problem.dim("T"), problem.dim("C"), 2);
}

}  // namespace plimsoll::catalog_rows
