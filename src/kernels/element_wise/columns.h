// A range of the columns of a matrix: taken out and scaled, or added to. Contracts; no graph, no allocation.
//
// Legend: T rows (all rows of the bucket, tail rows included), N columns of the wide matrix, K of the range,
// which begins at column `first`; row-major and dense. Thread-safe: distinct calls may run at once on
// distinct outputs. Ownership: views borrow.
//
// Common to all: _ref is plain loops in double and takes any floating type for each view; _cpu takes f32 or
// bf16, _cuda f32, bf16 or f16 (all views of one type). Errors: kInternal if a view is absent or of another
// type. Requires: first + K <= N. Scratch: none. Repeatability: exact, there is one rounding at the store.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// y[t, k] = scale * x[t, first + k].
//   Aliasing: y may be x where K = N. Cost: T*K FLOPs; 2*T*K elements moved. Error: columns_error_bound.
struct ColumnsFwdArgs {
  ConstView x;  // [T, N]
  View y;       // [T, K]
  int64_t T = 0;
  int64_t N = 0;
  int64_t K = 0;
  int64_t first = 0;
  double scale = 1.0;  // rounded to fp32 by the fast kernels
};
void columns_fwd_ref(const ColumnsFwdArgs& args);
void columns_fwd_cpu(const ColumnsFwdArgs& args);

// z[t, n] = x[t, n], and y[t, n - first] added to it where first <= n < first + K.
//   Aliasing: z may be x, of which then only the range is touched. Cost: T*K FLOPs; 3*T*K elements moved in
//   place, otherwise 2*T*N + T*K. Error: columns_error_bound.
struct AddColumnsFwdArgs {
  ConstView x;  // [T, N]
  ConstView y;  // [T, K]
  View z;       // [T, N]
  int64_t T = 0;
  int64_t N = 0;
  int64_t K = 0;
  int64_t first = 0;
};
void add_columns_fwd_ref(const AddColumnsFwdArgs& args);
void add_columns_fwd_cpu(const AddColumnsFwdArgs& args);

// Of a result: the scale's rounding to fp32, that of the product or the sum, and that of the store.
inline double columns_error_bound(double result, DType stored) {
  return 2.0 * kRoundoffF32 * std::abs(result) + store_error_bound(stored, result);
}

}  // namespace plimsoll
