#include "kernels/catalog/catalog.h"

#include <fmt/format.h>

#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/layer_norm/layer_norm_catalog.h"

namespace plimsoll::catalog_rows {

Support norm_row_fits(const Problem& problem) {
  const int64_t C = problem.dim("C");
  if (C >= 1 && C <= kMaxNormColumns) return {};
  return {false, fmt::format("a row of {} columns does not fit its buffer of {}", C, kMaxNormColumns)};
}

Support norm_row_fits_cuda(const Problem& problem) {
  const int64_t C = problem.dim("C");
  if (C >= 1 && C <= kMaxNormCudaColumns) return {};
  return {false, fmt::format("a row of {} columns does not fit the registers of a block, which hold {}", C,
                             kMaxNormCudaColumns)};
}

int64_t norm_bwd_cuda_scratch(const Problem& problem) {
  return norm_bwd_cuda_scratch_bytes(problem.dim("T"), problem.dim("C"));
}

int64_t three_column_sums_scratch(const Problem& problem) {
  return column_sums_scratch_bytes(problem.dim("T"), problem.dim("C"), 3);
}

}  // namespace plimsoll::catalog_rows
