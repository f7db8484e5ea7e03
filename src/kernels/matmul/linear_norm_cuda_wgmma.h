// Linear layers on compute capability 9.0 whose epilogue is the norm behind them (linear_norm.h): blocks
// that hold a row's columns between them exchange what its mean and variance need.
//
//   y_TN = norm(x w^T + bias + residual) gain + beta
//
// The product is summed in fp32 and rounded with its bias, the sum with the residual is rounded, and what is
// rounded is normalized in fp32: sums of 256 columns each are joined, in order.
// Requires: linear_norm_sizes_fit(); x, w, residual and y of the problem's type in device memory, aligned to
// 16 bytes; bias, gain and beta in fp32 or that type, aligned to two of their numbers. y overlaps nothing
// else but the residual, which it may be. Repeatability: the same bits for the same problem, whether y is the
// residual or not; a row of y depends on the same rows of x and the residual alone. Thread-safety: as a
// launch on the stream. All blocks of it run at a time. Errors: kInternal where what is
// required does not hold. A build without code for compute capability 9.0 lacks the function
// (PLIMSOLL_HAS_WGMMA).
#pragma once

#include "device/cuda/stream.h"
#include "kernels/matmul/linear_norm.h"

namespace plimsoll {

void linear_norm_cuda_wgmma(const LinearProblem& problem, const LinearNormArgs& args, CudaStream stream);

}  // namespace plimsoll
