#include "kernels/catalog/catalog.h"

#include <fmt/format.h>

#include "kernels/element_wise/catalog.h"
#include "kernels/layer_norm/catalog.h"

namespace plimsoll::catalog_rows {

Support norm_row_fits(const Problem& problem) {
  const int64_t C = problem.dim("C");
  if (C >= 1 && C <= kMaxNormColumns) return {};
  return {false, fmt::format("a row of {} columns does not fit its buffer of {}", C, kMaxNormColumns)};
}

int64_t three_column_sums_scratch(const Problem& problem) {
  return column_sums_scratch_bytes(problem.dim("T"), problem.dim("C"), 3);
}

}  // namespace plimsoll::catalog_rows
