// Launches the kernel for linear layers of few rows (linear_few_rows_cuda.cu), optionally together with the norm before the layer and the
// activation after it. Only for sources that are built with CUDA.
#pragma once

#include <cstdint>

#include "kernels/matmul/norm_linear.h"

namespace plimsoll {

// States how the kernel obtains its normalized input h. kPartOfLayer: it normalizes x itself. kDone: x is already normalized, and the
// operands of the norm are not read.
enum class NormIs : uint8_t { kPartOfLayer, kDone };
// Computes the norm (if `norm` is kPartOfLayer), the linear layer and the activation in one launch. The argument `w` states whether the
// kernel may read the weights args.w before the previous launches have ended (SecondOperand of matmul_cuda.h). Requires:
// linear_few_rows_fit(problem.product) and, for kPartOfLayer, norm_linear_takes_few_rows_cuda().
void norm_linear_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, NormIs norm,
                               SecondOperand w, CudaStream stream);

}  // namespace plimsoll
