// A linear layer, the residual that is added to it and the norm behind both in one: contract and reference.
// No graph, no allocation in run().
//
//   s = x w^T + bias + residual;  y_TN = norm(s) gain + beta, each row as normalize.h says
//
// Shape letters: T rows, K terms, N columns; dense, row-major.
// Types: x, w, residual and y of one type, bf16 or f16; bias, gain and beta f32 or that type. The reference
// takes any floating types.
// Accumulation: products are summed in fp32; s is rounded to the type of y on the way, once with one of bias
// and residual and once before, and normalized in fp32. The reference does not round it.
// Error of each element: linear_norm_error_bound below.
// Rows: a row of y depends on the same rows of x and the residual alone; tail rows may hold anything finite.
// Aliasing: y may be the residual and overlaps nothing else. Repeatability: the same bits for the same
// problem and card, and for the same version of the library where the product is the library's. Cost: 2 T N K
// FLOPs and 13 T N; each operand is read once and y written once, where the norm behind the product writes
// and reads T N numbers more. Thread-safety and ownership: views borrow; distinct calls may run at once on
// distinct outputs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/view.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/matmul/matmul_catalog.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

struct LinearNormArgs {
  ConstView x;         // [T, K]
  ConstView w;         // [N, K]
  ConstView bias;      // [N]
  ConstView residual;  // [T, N]
  ConstView gain;      // [N]
  ConstView beta;      // [N]
  View y;              // [T, N]
  double eps = 1e-5;
  std::span<std::byte> scratch = {};  // of the kernels of a GPU, as the catalog says
};

// Plain loops, summing in double; y is rounded once.
void linear_norm_ref(const LinearProblem& problem, const LinearNormArgs& args);

// |error| of an s of the fast kernels, with `abs_sum` = sum |x||w| over its terms and `product` their exact
// sum: the product's own error in fp32 (matmul_cuda.h), two roundings to the layer's type and two to fp32.
double linear_norm_input_error_bound(const LinearProblem& problem, double abs_sum, double product,
                                     double bias, double residual);
// |error| of one element of y with the exact `x_hat`, and `row` of exact s but for its input_error, the
// largest of the above in this row: that of normalize.h, of scale_shift.h, and the store.
double linear_norm_error_bound(const LinearProblem& problem, const RowMagnitudes& row, double x_hat,
                               double gain, double beta);

// linear_norm on an NVIDIA GPU. Where linear_norm_takes_own_product() says so (matmul_catalog.h), by a kernel
// of ours whose epilogue is the norm; otherwise, for few rows or in a build without code for compute
// capability 9.0, by the product with an addend of matmul_cuda_wgmma and the norm in its place; where that
// product is the library's, by its first choice: batches that are smaller than planned are not measured.
// Contract: linear_norm.h; the views hold device memory, x, w, residual and y aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). It allocates no device memory: the library's workspace
// is the arguments' scratch.

class CudaLinearNorm {
 public:
  // kOwn whatever the number of rows. Requires: linear_norm_sizes_fit(). run() has kInternal in a build
  // without code for compute capability 9.0.
  enum class Way { kAsPrepared, kOwn, kApart };
  explicit CudaLinearNorm(const LinearProblem& problem, Way way = Way::kAsPrepared);

  void run(const LinearNormArgs& args, CudaStream stream) const;
  std::string description() const;

 private:
  LinearProblem problem_;
  std::unique_ptr<CudaMatmul> product_;  // none where the kernel of ours does both
};

}  // namespace plimsoll
