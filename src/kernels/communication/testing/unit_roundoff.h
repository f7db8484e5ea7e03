// The unit roundoff of the element types that collective kernels add, from which tests compute error bounds. Thread-safe: a pure
// function.
#pragma once

#include <cmath>

#include "base/dtype.h"

namespace plimsoll::test {

// Returns the largest relative error of rounding to this type.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::ldexp(1.0, -53);
    case DType::kBF16:
      return std::ldexp(1.0, -8);
    case DType::kF16:
      return std::ldexp(1.0, -11);
    default:
      return std::ldexp(1.0, -24);
  }
}

}  // namespace plimsoll::test
