// Linear layers on compute capability 9.0, whose products are our own: with a bias alone, as matmul.h adds
// it, and with a bias and GELU (linear_gelu.h). They differ in what becomes of a finished tile of y.
//
//   linear_bias:  y_TN = x w^T + bias          the sum in fp32, rounded once behind the bias
//   linear_gelu:  y_TN = gelu(x w^T + bias)    the product rounded before the bias, as linear_gelu.h says
//
// Requires: linear_sizes_fit(); x, w and y of the problem's type in device memory, aligned to 16 bytes; bias
// in fp32 or that type, aligned to two of its numbers. y overlaps nothing else.
// Repeatability: the same bits for the same problem; a row of y depends on the same row of x alone.
// Thread-safety: as a launch on the stream. Nothing is allocated and no scratch is needed.
// Errors: kInternal where what is required does not hold. A build without code for compute capability 9.0
// lacks both functions (PLIMSOLL_HAS_WGMMA).
#pragma once

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/matmul/catalog.h"

namespace plimsoll {

struct LinearOperands {
  ConstView x_TK = {};
  ConstView w_NK = {};
  ConstView bias_N = {};
  View y_TN = {};
};

void linear_bias_cuda_wgmma(const LinearProblem& problem, const LinearOperands& operands, CudaStream stream);
void linear_gelu_cuda_wgmma(const LinearProblem& problem, const LinearOperands& operands, CudaStream stream);

}  // namespace plimsoll
