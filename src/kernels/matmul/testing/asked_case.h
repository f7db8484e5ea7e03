// Builds the requests with which tests ask the kernel catalog for an implementation of a matrix product.
#pragma once

#include <string_view>

#include "kernels/catalog/catalog.h"

namespace plimsoll {

// Returns the request with which a test asks the kernel catalog for an implementation of this matrix product on this device.
inline Problem asked_of(const MatmulProblem& problem, const KernelTarget& target,
                        std::string_view kernel = "matmul") {
  return {.kernel = kernel, .dtype = problem.a, .target = target, .family = problem};
}

// Returns the request for the matrix product of a layer on a GPU, as above. `kernel` is linear_gelu, linear_norm or linear_add.
inline Problem asked_of(const LinearProblem& layer, std::string_view kernel) {
  return asked_of(MatmulProblem{.m = layer.rows,
                                .n = layer.columns,
                                .k = layer.terms,
                                .trans_b = Transpose::kYes,
                                .a = layer.dtype,
                                .b = layer.dtype,
                                .c = layer.dtype,
                                .workspace_bytes = layer.workspace_bytes},
                  {.device = KernelDevice::kCuda, .sm = layer.sm}, kernel);
}

}  // namespace plimsoll
