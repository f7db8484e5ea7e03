// The type in which sums over rows are kept, gradients of parameters that every row uses: fp32 where the
// parameter is in 16 bits, which is what kernels write. Thread-safe: pure.
#pragma once

#include "graph/ir/graph.h"

namespace plimsoll {

constexpr DType sum_dtype(DType parameter) {
  return parameter == DType::kF64 ? DType::kF64 : DType::kF32;
}
inline ValueType sum_type(const ValueType& parameter) {
  return {sum_dtype(parameter.dtype), parameter.shape};
}

}  // namespace plimsoll
