// The type of sums over rows, such as gradients of biases: fp32 if the parameter is in 16 bits, because kernels write these sums in fp32.
// Pure; thread-safe.
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
