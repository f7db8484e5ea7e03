// Launches the kernels for linear layers of few rows with a norm before them: linear_few_rows_cuda.cu computes the layer, optionally
// together with the norm before it and the activation after it, and norm_few_rows_cuda.cu computes only the norm. Only for sources that are
// built with CUDA.
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

// The largest number of terms of a row for which norm_few_rows_cuda() is written: a thread block of 1024 threads with eight terms each.
inline constexpr int64_t kNormFewRowsTerms = 8192;
// Computes only the norm of such a layer: writes the normalized rows to `h` and, if there is a residual, the sum s of x, norm_bias and the
// residual to args.sum (norm_linear.h). A thread block normalizes one row, and each thread eight of its terms, which is faster for few rows
// than the kernels of layer_norm/, in which a thread has more terms. The argument `parameters` states whether norm_bias, gain and beta may
// be read before the previous launches have ended. Requires: terms that are a multiple of eight and at most kNormFewRowsTerms.
void norm_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, View h,
                        SecondOperand parameters, CudaStream stream);

}  // namespace plimsoll
