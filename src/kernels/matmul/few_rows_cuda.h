// The launch of linear_few_rows_cuda.cu with what surrounds the layer. Only for sources that are built with CUDA.
#pragma once

#include <cstdint>

#include "kernels/matmul/norm_linear.h"

namespace plimsoll {

// kPartOfLayer: the launch normalizes x. kDone: x is the normalized h, and the operands of the norm are not read.
enum class NormIs : uint8_t { kPartOfLayer, kDone };
// Computes the layer and what follows it in one launch. `w` is what it may assume of w (matmul_cuda.h). Requires:
// linear_few_rows_fit(problem.product) and, for kPartOfLayer, norm_linear_takes_few_rows_cuda().
void norm_linear_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, NormIs norm,
                               SecondOperand w, CudaStream stream);

}  // namespace plimsoll
