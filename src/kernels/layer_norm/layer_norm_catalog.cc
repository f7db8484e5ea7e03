#include "kernels/layer_norm/layer_norm_catalog.h"

#include <fmt/format.h>

namespace plimsoll::catalog_rows {

Support norm_row_fits(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxNormColumns) return {};
  return {false,
          fmt::format("a row of {} columns does not fit its buffer of {}", rows.columns, kMaxNormColumns)};
}

Support norm_row_fits_cuda(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxNormCudaColumns) return {};
  return {false, fmt::format("a row of {} columns does not fit the registers of a block, which hold {}",
                             rows.columns, kMaxNormCudaColumns)};
}

Support rms_norm_fits_cuda(const RowsProblem& rows) {
  if (rows.columns >= 1 && rows.columns <= kMaxRmsNormCudaColumns) return {};
  return {
      false,
      fmt::format("a vector of {} elements does not fit the registers of a group of threads, which hold {}",
                  rows.columns, kMaxRmsNormCudaColumns)};
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
