// Linear layers on compute capability 9.0 with the following norm as their epilogue (linear_norm.h). The
// blocks that hold the columns of a row exchange the sums for its mean and variance.
//
//   y_TN = norm(x w^T + bias + residual) gain + beta
//
// Accumulation: the product is summed in fp32 and rounded with its bias, the sum with the residual is
// rounded, and the rounded values are normalized in fp32. Sums of 256 columns each are combined in order.
// Requires: linear_norm_sizes_fit(); x, w, residual and y have the problem's type, are in device memory and
// aligned to 16 bytes; bias, gain and beta are fp32 or have that type, and are aligned to two of their
// elements. y may be the residual and overlaps no other operand.
// Repeatability: the same bits for the same problem, whether y is the residual or not; a row of y depends
// only on the same rows of x and the residual.
// Thread-safety: as a launch on the stream. All its blocks run at the same time.
// Errors: kInternal if a requirement does not hold. A build without code for compute capability 9.0 does not
// have the function (PLIMSOLL_HAS_WGMMA).
#pragma once

#include "device/cuda/stream.h"
#include "kernels/matmul/linear_norm.h"

namespace plimsoll {

void linear_norm_cuda_wgmma(const LinearProblem& problem, const LinearNormArgs& args, CudaStream stream);

}  // namespace plimsoll
