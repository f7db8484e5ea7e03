// A linear layer and its activation in one: contract and reference. No graph, no allocation in run().
//
//   y_TN = gelu(x w^T + bias), the erf form of element_wise/gelu.h
//
// Shape letters: T rows, K terms, N columns; dense, row-major.
// Types: x, w and y of one type, bf16 or f16; bias f32 or that type. The reference takes any floating types.
// Accumulation: products are summed in fp32; the sum is rounded to the type of y before the bias is added to
// it in fp32, as matmul and bias_gelu_fwd round it. The reference does not round it.
// Error of each element: linear_gelu_error_bound below.
// Rows: a row of y depends on the same row of x alone; tail rows may hold anything finite.
// Aliasing: y overlaps nothing else. Repeatability: the same bits for the same problem and card, and for the
// same version of the library where the product is the library's.
// Cost: 2 T N K FLOPs and those of the activation; each operand is read once and y written once, where
// bias_gelu after matmul writes and reads T N numbers more.
// Thread-safety and ownership: as matmul.h, whose arguments it takes: a is x, b is w, c is y; there is a bias
// and no addend.
#pragma once

#include <memory>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_catalog.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

// Plain loops, summing in double; y is rounded once.
void linear_gelu_ref(const LinearProblem& problem, const MatmulArgs& args);

// |error| of one element of the fast kernels, with `abs_sum` = sum |x||w| over its terms, `product` their
// exact sum and `bias`. Four parts: the product's own error in fp32 (matmul_cuda.h) and its rounding to
// `dtype`; the rounding of the sum with the bias; both times 1.13, the steepest slope of gelu; what the
// activation loses, relative to z Phi(-z) with z = |x| (ErfGeluOfRounded of element_wise/cuda/gelu.cuh); and
// the store.
double linear_gelu_error_bound(const LinearProblem& problem, double abs_sum, double product, double bias);

// linear_gelu on an NVIDIA GPU. Where linear_takes_own_product() says so (matmul_catalog.h), by a kernel of
// ours whose epilogue is the activation; otherwise, for few rows or in a build without code for compute
// capability 9.0, by cuBLASLt's product and bias_gelu_fwd_cuda in its place. Contract: linear_gelu.h; the
// views hold device memory, x, w and y aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). It allocates no device memory: the library's workspace
// is `scratch`.

std::unique_ptr<CudaMatmul> prepare_linear_gelu_cuda(const LinearProblem& problem);
// The first way whatever the number of rows. Requires: linear_sizes_fit(). run() has kInternal in a
// build without code for compute capability 9.0.
std::unique_ptr<CudaMatmul> prepare_own_linear_gelu_cuda(const LinearProblem& problem);

}  // namespace plimsoll
