// Operations on a range of the columns of a matrix: extract and scale it, or add to it. The header states the contracts of these kernels,
// which allocate no memory.
//
// Legend: T rows (the tokens of a batch, then unused tail rows), N columns of the wide matrix, K columns of the range,
// which begins at column `first`; row-major and dense. Thread-safe: distinct calls may run concurrently on distinct
// outputs. Ownership: views do not own memory.
//
// For all functions: _ref is plain loops in double and takes any floating type for each view. _cpu takes f32
// or bf16, _cuda f32, bf16 or f16 (all views of one type). Errors: kInternal if a view is absent or has an
// unsupported type. Requires: first + K <= N. Scratch: none. Repeatability: exact, because the only rounding
// is at the store.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes y[t, k] = scale * x[t, first + k].
//   Aliasing: y may be x if K = N. Cost: T*K FLOPs; 2*T*K elements moved. Error: columns_error_bound.
struct ColumnsFwdArgs {
  ConstView x;  // input, shape [T, N]
  View y;       // output, shape [T, K]
  int64_t T = 0;
  int64_t N = 0;
  int64_t K = 0;
  int64_t first = 0;
  double scale = 1.0;  // factor of the result; the fast kernels round it to fp32
};
void columns_fwd_ref(const ColumnsFwdArgs& args);
void columns_fwd_cpu(const ColumnsFwdArgs& args);

// Computes z[t, n] = x[t, n], plus y[t, n - first] if first <= n < first + K.
//   Aliasing: z may be x; then only the range is accessed. Cost: T*K FLOPs; 3*T*K elements moved in place,
//   otherwise 2*T*N + T*K. Error: columns_error_bound.
struct AddColumnsFwdArgs {
  ConstView x;  // the wide input, shape [T, N]
  ConstView y;  // input that is added to the range of columns, shape [T, K]
  View z;       // output, shape [T, N]
  int64_t T = 0;
  int64_t N = 0;
  int64_t K = 0;
  int64_t first = 0;
};
void add_columns_fwd_ref(const AddColumnsFwdArgs& args);
void add_columns_fwd_cpu(const AddColumnsFwdArgs& args);

// Returns the error bound of a result: the rounding of the scale to fp32, of the product or sum, and of the
// store.
inline double columns_error_bound(double result, DType stored) {
  return 2.0 * kRoundoffF32 * std::abs(result) + store_error_bound(stored, result);
}

// The functions below run on an NVIDIA GPU. add.h states the rules for all CUDA kernels.

void columns_fwd_cuda(const ColumnsFwdArgs& args, CudaStream stream);
void add_columns_fwd_cuda(const AddColumnsFwdArgs& args, CudaStream stream);

}  // namespace plimsoll
