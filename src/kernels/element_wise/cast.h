// Conversion between floating types. Contract; no graph, no allocation.
//
//   y[i] = x[i] in y's type, rounded to nearest, ties to even. f64 goes to the 16-bit types through f32
//   (rounded twice), as View::store does. Overflow gives infinity; NaN stays NaN.
//
// Thread-safe: distinct calls may run at once on distinct outputs. Ownership: views borrow.
// Both take any pair of f64, f32, bf16, f16. Errors: kInternal if a view is absent or of another type.
// Aliasing: y may be x only where the types have the same size. Scratch: none. Error: none beyond the
// rounding named. Denormal numbers are flushed to zero where the thread's mode says so. Repeatability: exact.
// Cost: 2n elements moved.
#pragma once

#include <cstdint>

#include "base/view.h"

namespace plimsoll {

struct CastFwdArgs {
  ConstView x;  // [n]
  View y;       // [n]
  int64_t n = 0;
};
void cast_fwd_ref(const CastFwdArgs& args);
void cast_fwd_cpu(const CastFwdArgs& args);

}  // namespace plimsoll
