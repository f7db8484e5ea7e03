// Unit roundoffs. The kernels' contracts state their error bounds in terms of them. Thread-safe: pure
// functions.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll {

// Returns the unit roundoff of a type, the largest relative error of one rounding to nearest. It is half the distance from 1 to the next
// number of the type, and 0 for integers.
constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0.0;
  }
}

// The unit roundoff of fp32, in which every fast kernel computes.
inline constexpr double kRoundoffF32 = unit_roundoff(DType::kF32);

// The largest error of rounding to f16 near zero: half of 2^-24, the distance between its smallest numbers. Values of such a size are
// common in f16, unlike in f32 and bf16, whose smallest numbers are far smaller.
inline constexpr double kHalfSpacingF16 = 0x1p-25;

// Returns the error that is added when a result computed in fp32 is rounded to the type `stored`: 0 for f32 and f64, whose rounding the
// bounds for fp32 already include. The rounding is that of the computed value, which differs slightly from the exact one; the factor 1.01
// covers this.
constexpr double store_error_bound(DType stored, double exact) {
  const double magnitude = exact < 0.0 ? -exact : exact;
  if (stored == DType::kF32 || stored == DType::kF64) return 0.0;
  return 1.01 * unit_roundoff(stored) * magnitude + (stored == DType::kF16 ? kHalfSpacingF16 : 0.0);
}

}  // namespace plimsoll
