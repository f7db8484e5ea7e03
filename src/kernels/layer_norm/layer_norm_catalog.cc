#include "kernels/layer_norm/layer_norm_catalog.h"

#include <fmt/format.h>

namespace plimsoll::catalog_rows {

Support norm_row_fits(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxNormColumns) return {};
  return {false, fmt::format("rows may have at most {} columns, the size of the kernel's buffer, but have {}",
                             kMaxNormColumns, rows.columns)};
}

Support norm_row_fits_cuda(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxNormCudaColumns) return {};
  return {
      false,
      fmt::format("rows may have at most {} columns, which the registers of a thread block hold, but have {}",
                  kMaxNormCudaColumns, rows.columns)};
}

Support rms_norm_fits_cuda(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxRmsNormCudaColumns) return {};
  return {
      false,
      fmt::format(
          "vectors must have 1 to {} elements, which the registers of a group of threads hold, but have {}",
          kMaxRmsNormCudaColumns, rows.columns)};
}

int64_t rms_norm_bwd_cuda_scratch(const RowsProblem& rows) {
  return rms_norm_cuda_scratch_bytes(rows.rows, rows.columns);
}

int64_t norm_bwd_cuda_scratch(const RowsProblem& rows) {
  return norm_bwd_cuda_scratch_bytes(rows.rows, rows.columns);
}

int64_t three_column_sums_scratch(const RowsProblem& rows) {
  return column_sums_scratch_bytes(rows.rows, rows.columns, 3);
}

}  // namespace plimsoll::catalog_rows
