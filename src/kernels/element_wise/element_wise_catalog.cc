#include "kernels/element_wise/element_wise_catalog.h"

namespace plimsoll::catalog_rows {

int64_t one_column_sum_scratch(const RowsProblem& rows) {
  return column_sums_scratch_bytes(rows.rows, rows.columns, 1);
}
int64_t two_column_sums_scratch(const RowsProblem& rows) {
  return column_sums_scratch_bytes(rows.rows, rows.columns, 2);
}
int64_t one_column_sum_cuda_scratch(const RowsProblem& rows) {
  return column_sums_cuda_scratch_bytes(rows.rows, rows.columns, 1);
}
int64_t two_column_sums_cuda_scratch(const RowsProblem& rows) {
  return column_sums_cuda_scratch_bytes(rows.rows, rows.columns, 2);
}

}  // namespace plimsoll::catalog_rows
