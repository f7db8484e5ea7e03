// Linear layers with Plimsoll's own product kernel on compute capability 9.0: the layers of matmul.h with a bias, an addend or neither, and
// those of linear_gelu.h with a bias and GELU. The layers differ in the operations that are applied to a finished tile of y.
//
//   y_TN = x w^T, x w^T + bias   the sum in fp32, rounded once after the bias
//   y_TN = x w^T + addend        the product rounded, then the sum with the addend in fp32
//   y_TN = gelu(x w^T + bias)    the product rounded before the bias, as in linear_gelu.h
//
// Requires: linear_sizes_fit(); x, w, addend and y have the problem's type, are in device memory and aligned
// to 16 bytes; bias is fp32 or has that type, and is aligned to two of its elements. y may be the addend,
// because an element of the addend is read before the same element of y is written; it overlaps no other
// operand.
// Repeatability: the same bits for the same problem, whether y is the addend or not; a row of y depends only
// on the same rows of x and the addend.
// Thread-safety: that of a kernel launch on the stream. Nothing is allocated and no scratch is needed.
// Errors: kInternal if a requirement does not hold. A build without code for compute capability 9.0 does not
// have the function (PLIMSOLL_HAS_WGMMA).
#pragma once

#include <cstdint>

#include "device/cuda/stream.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {

enum class LinearActivation : uint8_t { kNone, kGelu };

void linear_cuda_wgmma(const LinearProblem& problem, LinearActivation activation, const MatmulArgs& args,
                       CudaStream stream);

// Linear layers on compute capability 9.0 with the following norm as their epilogue (linear_norm.h). Several thread blocks compute the
// columns of a row; they exchange the sums from which the mean and variance of the row are computed.
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
// Thread-safety: that of a kernel launch on the stream. All thread blocks of the launch run at the same time.
// Errors: kInternal if a requirement does not hold. A build without code for compute capability 9.0 does not
// have the function (PLIMSOLL_HAS_WGMMA).

void linear_norm_cuda_wgmma(const LinearProblem& problem, const LinearNormArgs& args, CudaStream stream);

}  // namespace plimsoll
