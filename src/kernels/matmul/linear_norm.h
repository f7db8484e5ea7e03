// This header states the contract of a linear layer that is fused with the addition of a residual and the norm that follows. run() does not
// allocate memory.
//
//   s = x w^T + bias + residual;  y_TN = norm(s) gain + beta, each row as in normalize.h
// Shape letters: T rows, K terms, N columns; dense, row-major. Types: x, w, residual and y have one type, bf16 or f16; bias, gain and beta
// are f32 or have that type. The reference takes any floating types. Accumulation: products are summed in fp32. While s is summed up, it is
// rounded to the type of y at most twice. The kernel determines the additions after which it is rounded. s is then normalized in fp32. The
// reference does not round s. Error of each element: linear_norm_error_bound below. Rows: a row of y depends only on the same rows of x and
// the residual; tail rows (after the last token of a batch) may contain anything finite. Aliasing: y may be the residual and overlaps no
// other operand. Repeatability: the same bits for the same problem and GPU model and, if the library computes the product, for the same
// version of the library. Cost: 2 T N K FLOPs plus 13 T N. Each operand is read once and y is written once; separate kernels for the
// product and the norm would write and read T N more elements. Thread-safety and ownership: views do not own memory; distinct calls may run
// concurrently on distinct outputs.
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
  ConstView x;         // input, shape [T, K]
  ConstView w;         // weights, shape [N, K]
  ConstView bias;      // bias of the layer, shape [N]
  ConstView residual;  // residual that is added, shape [T, N]
  ConstView gain;      // factors of the norm, shape [N]
  ConstView beta;      // bias after the norm, shape [N]; null means zero
  View y;              // output, shape [T, N]
  double eps = 1e-5;
  std::span<std::byte> scratch = {};  // scratch memory of the GPU kernels; the kernel catalog states its size
};

// Computes the layer and the norm in double with plain loops and rounds each result once.
void linear_norm_ref(const LinearProblem& problem, const LinearNormArgs& args);

// Returns a bound of |error| for one element of s of the fast kernels. `abs_sum` = sum |x||w| over its terms, and `product` is their exact
// sum. The bound consists of the product's own error in fp32 (matmul_cuda.h), two roundings to the layer's type and two to fp32.
double linear_norm_input_error_bound(const LinearProblem& problem, double abs_sum, double product,
                                     double bias, double residual);
// Returns a bound of |error| for one element of y. `x_hat` is the exact normalized value. `row` describes the exact s, except that
// row.input_error is the largest linear_norm_input_error_bound() of the elements of s in this row. The bound consists of the bounds of
// normalize.h and scale_shift.h, and the rounding of y.
double linear_norm_error_bound(const LinearProblem& problem, const RowMagnitudes& row, double x_hat,
                               double gain, double beta);

// The class below runs on an NVIDIA GPU. If linear_norm_takes_own_product() (matmul_catalog.h) returns true, Plimsoll's own kernel computes
// the layer, with the norm as its epilogue. Otherwise (for few rows, or in a build without code for compute capability 9.0)
// matmul_cuda_wgmma computes the product with the residual as addend, and the norm is then applied in place. If cuBLASLt computes that
// product, it uses the algorithm that it proposes first and not one of the tuning table, which contains only algorithms that were measured
// for batches of the planned size. Views are in device memory; x, w, residual and y are aligned to 16 bytes.
//
// Thread-safety and errors: as prepare_matmul_cuda(). No device memory is allocated: the library's workspace
// is the arguments' scratch.

class CudaLinearNorm {
 public:
  // kAsPrepared chooses as described above. kOwn uses Plimsoll's own kernel for any number of rows. It requires linear_norm_sizes_fit(),
  // and run() throws kInternal in a build without code for compute capability 9.0. kApart always computes the product and the norm with
  // separate kernels.
  enum class Way { kAsPrepared, kOwn, kApart };
  explicit CudaLinearNorm(const LinearProblem& problem, Way way = Way::kAsPrepared);

  void run(const LinearNormArgs& args, CudaStream stream) const;
  std::string description() const;

 private:
  LinearProblem problem_;
  // The prepared matrix product; null if Plimsoll's own kernel computes the layer.
  std::unique_ptr<CudaMatmul> product_;
};

}  // namespace plimsoll
