// Launches the kernel of linear_few_rows_cuda.cu together with the norm before the layer and the activation after it. Only for sources that
// are built with CUDA.
#pragma once

#include <cstdint>

#include "kernels/matmul/norm_linear.h"

namespace plimsoll {

// How the launch obtains the normalized rows h. kPartOfLayer: it normalizes x itself. kDone: x is already h, and the operands of the norm
// are not read.
enum class NormIs : uint8_t { kPartOfLayer, kDone };
// Computes the layer and the operations after it in one launch. `w` states what the launch may assume about w (matmul_cuda.h). Requires:
// linear_few_rows_fit(problem.product) and, for kPartOfLayer, norm_linear_takes_few_rows_cuda().
void norm_linear_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, NormIs norm,
                               SecondOperand w, CudaStream stream);

}  // namespace plimsoll
