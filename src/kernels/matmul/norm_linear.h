// This header states the contract of a norm, the linear layer that reads its result, and the activation after the layer, as one operation.
// It declares the reference and the prepared layer on a GPU. run() does not allocate memory.
//
//   s = x + norm_bias + residual        (s = x without a residual; norm_bias needs a residual)
//   h = norm(s) gain + beta             normalize.h, or rms_norm.h, which has no beta
//   z = h w^T + bias
//   y = z,  y = f(z),  or  y = f(z[:, :F]) z[:, F:]  for z of 2 F columns (glu.h)
//
// Shape letters: T rows, K terms, N rows of w; dense, row-major. Types: x, residual, s, w and y have one type, bf16 or f16; norm_bias,
// gain, beta and bias are f32 or have that type. The reference takes any floating types. Rounding: s and h are rounded to the type of x.
// Products are summed in fp32. z may be rounded to that type once before and once after the bias is added; y is rounded once. The reference
// rounds s and h, and sums in double. Error of z against the reference: norm_linear_product_error_bound below; the activation adds the
// error of gelu.h. Rows: a row of y and s depends only on the same rows of x and the residual; tail rows (after the last token of a batch)
// may contain anything finite. Aliasing: y and s overlap no other operand. Repeatability: the same bits for the same problem and GPU model
// and, if cuBLASLt computes the product, for the same version of cuBLASLt. The number of rows decides which kernels compute the layer, and
// different kernels give different bits. Cost: 2 T N K FLOPs plus 13 T K and 11 T N. With few rows, reading w once takes most of the time.
// Thread-safety and ownership: views do not own memory; distinct calls may run concurrently on distinct outputs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/view.h"
#include "kernels/matmul/matmul_catalog.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {

struct NormLinearArgs {
  ConstView x;          // input, shape [T, K]
  ConstView residual;   // residual that is added before the norm, shape [T, K]; may be null
  ConstView norm_bias;  // bias that is added before the norm, shape [K]; may be null
  ConstView gain;       // factors of the norm, shape [K]
  ConstView beta;       // bias of the norm, shape [K]; null means zero; must be null if `norm` is kRms
  ConstView w;          // weights, shape [N, K]
  ConstView bias;       // bias of the layer, shape [N]; may be null
  View y;               // output, shape [T, N], or [T, N / 2] if `end` is kGlu
  View sum;             // output s, shape [T, K]; null without a residual
  double eps = 1e-5;
  std::span<std::byte> scratch = {};  // scratch memory of the GPU kernels; the kernel catalog states its size
};

// Computes s and y in double with plain loops.
void norm_linear_ref(const NormLinearProblem& problem, const NormLinearArgs& args);

// Returns a bound of the difference between an element of h of a fast kernel and of the reference. Both round s and h, but a fast kernel
// computes them in fp32, so each may round to a neighbour of the reference's value, which is 2^-7 of the magnitude away in bf16 and 2^-10
// in f16. `s` and `rstd` are those of the reference.
double norm_linear_term_error_bound(DType dtype, double h, double gain, double rstd, double s);
// Returns a bound of |error| for one element of z of the fast kernels. The arguments are sums over the terms: `abs_sum` = sum |h||w|,
// `changes` = sum of |w| times norm_linear_term_error_bound() of h, `product` = sum h w. The bound is `changes` plus the error of the
// product (matmul_cuda.h) and two roundings of z.
double norm_linear_product_error_bound(const NormLinearProblem& problem, double abs_sum, double changes,
                                       double product, double bias);

// A layer that is prepared to run on an NVIDIA GPU. Views are in device memory; x, residual, s, w and y are aligned to 16 bytes.
class CudaNormLinear {
 public:
  virtual ~CudaNormLinear() = default;
  virtual void run(const NormLinearArgs& args, CudaStream stream) = 0;
  virtual std::string description() const = 0;
};

// States how the layer is computed. kAsPrepared: few rows (matmul_takes_few_rows_cuda() in matmul_catalog.h) are computed in one launch, or
// in two if there are too many of them for every thread block to normalize (norm_linear_takes_few_rows_cuda()); more rows are computed by
// separate kernels for the norm, the matrix product and the activation. kApart: all numbers of rows are computed by these separate kernels.
enum class NormLinearWay : uint8_t { kAsPrepared, kApart };
// Prepares the layer. The argument `w` states whether w, norm_bias, gain and beta may be read before the previous launches have ended
// (SecondOperand of matmul_cuda.h). Errors: as prepare_matmul_cuda().
std::unique_ptr<CudaNormLinear> prepare_norm_linear_cuda(const NormLinearProblem& problem, int sm,
                                                         SecondOperand w, const TunedProduct* tuned = nullptr,
                                                         NormLinearWay way = NormLinearWay::kAsPrepared);

}  // namespace plimsoll
