// This header states the contract of a linear layer that is fused with its activation. run() does not allocate memory.
//
//   y_TN = gelu(x w^T + bias), the erf form of element_wise/gelu.h
//
// Shape letters: T rows, K terms, N columns; dense, row-major. Types: x, w and y have one type, bf16 or f16; bias is f32 or has that type.
// The reference takes any floating types. Accumulation: products are summed in fp32. The sum is rounded to the type of y before the bias is
// added to it in fp32, as in matmul followed by bias_gelu_fwd. The reference does not round it. Error of each element:
// linear_gelu_error_bound below. Rows: a row of y depends only on the same row of x; tail rows (after the last token of a batch) may
// contain anything finite. Aliasing: y overlaps no other operand. Repeatability: the same bits for the same problem and GPU model and, if
// the library computes the product, for the same version of the library. Cost: 2 T N K FLOPs plus those of the activation. Each operand is
// read once and y is written once. Separate kernels for matmul and bias_gelu would write and read T N more elements. Arguments: those of
// matmul.h, with a = x, b = w, c = y, a bias and no addend. Thread-safety and ownership: as in matmul.h.
#pragma once

#include <memory>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_catalog.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

// Computes the layer in double with plain loops and rounds each result once.
void linear_gelu_ref(const LinearProblem& problem, const MatmulArgs& args);

// Returns a bound of |error| for one element of the fast kernels. `abs_sum` = sum |x||w| over its terms, and `product` is their exact sum.
// The bound is the sum of three errors. The first is 1.13, the steepest slope of gelu, times the error of its argument: the error of the
// product in fp32 (matmul_cuda.h), its rounding to the problem's type, and the rounding of the sum with the bias. The second is the error
// of the activation: mainly a relative error of z Phi(-z), where z is the magnitude of the argument (ErfGeluOfRounded of
// element_wise/cuda/gelu.cuh). The third is the rounding of the stored result.
double linear_gelu_error_bound(const LinearProblem& problem, double abs_sum, double product, double bias);

// The functions below run on an NVIDIA GPU. If linear_takes_own_product() returns true (matmul_catalog.h), Plimsoll's own kernel computes
// the layer, with the activation as its epilogue. Otherwise (for few rows, or in a build without code for compute capability 9.0) cuBLASLt
// computes the matrix product and bias_gelu_fwd_cuda is applied in place. Views are in device memory; x, w and y are aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). No device memory is allocated: the workspace of cuBLASLt is `scratch`.

std::unique_ptr<CudaMatmul> prepare_linear_gelu_cuda(const LinearProblem& problem);
// Prepares the layer with Plimsoll's own kernel, whatever the number of rows is. Requires: linear_sizes_fit(). In a build without code for
// compute capability 9.0, run() throws kInternal.
std::unique_ptr<CudaMatmul> prepare_own_linear_gelu_cuda(const LinearProblem& problem);

}  // namespace plimsoll
