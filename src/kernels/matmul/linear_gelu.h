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

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_catalog.h"

namespace plimsoll {

// Plain loops, summing in double; y is rounded once.
void linear_gelu_ref(const LinearProblem& problem, const MatmulArgs& args);

// |error| of one element of the fast kernels, with `abs_sum` = sum |x||w| over its terms, `product` their
// exact sum and `bias`. Four parts: the product's own error in fp32 (matmul_cuda.h) and its rounding to
// `dtype`; the rounding of the sum with the bias; both times 1.13, the steepest slope of gelu; what the
// activation loses, relative to z Phi(-z) with z = |x| (ErfGeluOfRounded of element_wise/cuda/gelu.cuh); and
// the store.
double linear_gelu_error_bound(const LinearProblem& problem, double abs_sum, double product, double bias);

}  // namespace plimsoll
