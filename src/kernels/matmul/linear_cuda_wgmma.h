// Linear layers on compute capability 9.0, whose products are our own: as matmul.h says, with a bias, an
// addend or neither, and with a bias and GELU (linear_gelu.h). They differ in what becomes of a finished tile
// of y.
//
//   y_TN = x w^T, x w^T + bias   the sum in fp32, rounded once behind the bias
//   y_TN = x w^T + addend        the product rounded, then the sum with the addend in fp32
//   y_TN = gelu(x w^T + bias)    the product rounded before the bias, as linear_gelu.h says
//
// Requires: linear_sizes_fit(); x, w, addend and y of the problem's type in device memory, aligned to 16
// bytes; bias in fp32 or that type, aligned to two of its numbers. y overlaps nothing else; it may be the
// addend, of which an element is read before the same one of y is written.
// Repeatability: the same bits for the same problem, whether y is the addend or not; a row of y depends on
// the same rows of x and the addend alone.
// Thread-safety: as a launch on the stream. Nothing is allocated and no scratch is needed.
// Errors: kInternal where what is required does not hold. A build without code for compute capability 9.0
// lacks the function (PLIMSOLL_HAS_WGMMA).
#pragma once

#include <cstdint>

#include "device/cuda/stream.h"
#include "kernels/matmul/matmul.h"

namespace plimsoll {

enum class LinearActivation : uint8_t { kNone, kGelu };

void linear_cuda_wgmma(const LinearProblem& problem, LinearActivation activation, const MatmulArgs& args,
                       CudaStream stream);

}  // namespace plimsoll
