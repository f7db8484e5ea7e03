// The activation functions of feed-forward layers, alone and together with the bias that is added before them, with gradients from the
// input. The header states the contracts of these kernels, which allocate no memory. activation.h has tanh and ReLU with gradients from the
// output.
//
//   kGelu      x * Phi(x)                            slope Phi(x) + x * phi(x)
//   kGeluTanh  x * S(v), v = 2 sqrt(2/pi) (x + 0.044715 x^3)  slope S + x * S * (1 - S) * v'(x)
//   kSilu      x * S(x)                              slope S + x * S * (1 - S)
//   kRelu      max(x, 0)                             slope 1 for x > 0, else 0
//   kTanh      tanh(x)                               slope 1 - tanh(x)^2
// Phi is the normal distribution function, phi its density, S(v) = 1 / (1 + exp(-v)). GELU and its tanh form:
// Hendrycks and Gimpel, arXiv:1606.08415, section 2; the tanh form is GPT-2's "gelu_new". SiLU: Elfwing, Uchibe
// and Doya, arXiv:1702.03118.
//
// Legend: T rows (the tokens of a batch, then unused tail rows), C columns, row-major and dense. Thread-safe: distinct
// calls may run concurrently on distinct outputs. Ownership: views do not own memory. The _ref functions are plain
// loops in double and take any floating type for each view. The _cpu functions take f32 or bf16 activations (all of
// one type) and an f32 or bf16 bias, and compute in fp32. Errors: kInternal if a view is absent or has an unsupported
// type. Repeatability: the same bits for any number of threads on one instruction set. NaN gives NaN. Infinities give
// no finite result in the forward kernels, except that tanh gives 1 or -1 and that ReLU gives 0 for minus infinity.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/activation_names.h"
#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes y = f(x), where f is the activation.
//   Aliasing: y may be x. Scratch: none. Cost: about 40 FLOPs per element; 2n elements moved.
//   Error: gelu_fwd_error_bound.
struct GeluFwdArgs {
  ConstView x;  // input, shape [n]
  View y;       // output, shape [n]
  int64_t n = 0;
  Activation activation = Activation::kGelu;
};
void gelu_fwd_ref(const GeluFwdArgs& args);
void gelu_fwd_cpu(const GeluFwdArgs& args);

// Computes d_x = d_y * f'(x).
//   Aliasing: d_x may be x or d_y. Scratch: none. Cost: about 45 FLOPs per element; 3n elements moved.
//   Error: gelu_bwd_error_bound.
struct GeluBwdArgs {
  ConstView x;    // input of the forward pass, shape [n]
  ConstView d_y;  // gradient of y, shape [n]
  View d_x;       // output, the gradient of x, shape [n]
  int64_t n = 0;
  Activation activation = Activation::kGelu;
};
void gelu_bwd_ref(const GeluBwdArgs& args);
void gelu_bwd_cpu(const GeluBwdArgs& args);

// Computes y[t, c] = f(h[t, c] + b[c]). The sum is not rounded to the type of the activations.
//   Aliasing: y may be h. Scratch: none. Cost: about 41 FLOPs per element; 2*T*C + C elements moved.
//   Error: gelu_fwd_error_bound at h + b, plus 1.13 (the steepest slope of all activations) times
//   the fp32 rounding of the sum.
struct BiasGeluFwdArgs {
  ConstView h;  // input, shape [T, C]
  ConstView b;  // bias, shape [C]
  View y;       // output, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
  Activation activation = Activation::kGelu;
};
void bias_gelu_fwd_ref(const BiasGeluFwdArgs& args);
void bias_gelu_fwd_cpu(const BiasGeluFwdArgs& args);

// Computes d_h = d_y * f'(h + b) and d_b[c] = (or +=) sum over t of d_h[t, c], from values before they are
// rounded to the type of d_h.
//   Accumulation: fp32, rows in order within a block of row_blocks(T, C), then blocks in order. For finite h, rows
//   in which d_y is zero give zero and contribute exactly zero. Aliasing: d_h may be h or d_y. Scratch:
//   bias_gelu_bwd_scratch_bytes (the reference needs none). Cost: about 47 FLOPs per element; 3*T*C + 2*C
//   elements moved, plus the scratch twice. Error of d_h: gelu_bwd_error_bound at h + b, plus |d_y| times the
//   fp32 rounding of the sum (|f''| < 1; ReLU depends on the sum's sign alone, which is exact). Error of d_b:
//   column_sum_error_bound.
struct BiasGeluBwdArgs {
  ConstView h;    // input of the forward pass, shape [T, C]
  ConstView b;    // bias, shape [C]
  ConstView d_y;  // gradient of y, shape [T, C]
  View d_h;       // output, the gradient of h, shape [T, C]
  View d_b;       // output, the gradient of the bias, shape [C]
  View scratch;   // scratch memory of bias_gelu_bwd_scratch_bytes(T, C) bytes
  int64_t T = 0;
  int64_t C = 0;
  Activation activation = Activation::kGelu;
  Accumulate accumulate = Accumulate::kOverwrite;
};
void bias_gelu_bwd_ref(const BiasGeluBwdArgs& args);
void bias_gelu_bwd_cpu(const BiasGeluBwdArgs& args);
constexpr int64_t bias_gelu_bwd_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_scratch_bytes(T, C, 1);
}

// Return the activation, its slope and their error bounds for one number, in double precision. The reference kernels call these functions.
double gelu_exact(double x, Activation activation);
double gelu_slope_exact(double x, Activation activation);
// Returns a bound of |got - exact| for the fast kernels. GELU computes the small quantity z * Phi(-z), z = |x|, with a relative error of
// (10 + 2.5 z^2) roundoffs until it falls below the smallest normal fp32. The result is therefore relatively accurate near 0 and far in the
// negative tail too. In the tanh form and SiLU, an error of v changes S(v) by a relative error of (1 - S(v)) times the error of v. ReLU is
// exact, except that a denormal may count as zero.
double gelu_fwd_error_bound(double x, Activation activation, DType stored);
// Returns a bound of |got - exact| for the backward kernels. The derivative is a sum of two terms, which cancel each other where the slope
// is zero. The error is therefore relative to the magnitudes of the terms.
double gelu_bwd_error_bound(double x, double d_y, Activation activation, DType stored);

// The functions below run on an NVIDIA GPU. add.h states the rules for all CUDA kernels. Errors against the
// reference: the bounds above, except that the two bounds below replace them for kGelu with 16-bit activations.
// Column sums: column_sum_cuda_error_bound.

void gelu_fwd_cuda(const GeluFwdArgs& args, CudaStream stream);
void gelu_bwd_cuda(const GeluBwdArgs& args, CudaStream stream);
void bias_gelu_fwd_cuda(const BiasGeluFwdArgs& args, CudaStream stream);

// Computes bias_gelu_bwd on a GPU. Adds to d_b if *accumulate is not 0; if `accumulate` is null, args.accumulate decides. Scratch:
// bias_gelu_bwd_cuda_scratch_bytes, aligned to 16.
void bias_gelu_bwd_cuda(const BiasGeluBwdArgs& args, const int32_t* accumulate, CudaStream stream);
constexpr int64_t bias_gelu_bwd_cuda_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_cuda_scratch_bytes(T, C, 1);
}

// Returns the error bound of GELU for 16-bit activations. The kernels compute Phi(-|x|) with a relative error of only 2^-15, which is still
// an eighth of the rounding error of f16.
inline double gelu_fwd_cuda_error_bound(double x, Activation activation, DType stored) {
  const bool coarse = activation == Activation::kGelu && stored != DType::kF32;
  const double tail = std::abs(gelu_exact(-std::abs(x), activation));
  return gelu_fwd_error_bound(x, activation, stored) + (coarse ? 0x1p-15 * tail : 0.0);
}
// Returns the error bound of the gradient. `activations` is the type of x and d_y.
inline double gelu_bwd_cuda_error_bound(double x, double d_y, Activation activation, DType activations,
                                        DType stored) {
  const bool coarse = activation == Activation::kGelu && activations != DType::kF32;
  const double z = std::abs(x);
  const double tail = z > 0.0 ? std::abs(gelu_exact(-z, activation)) / z : 0.5;
  return gelu_bwd_error_bound(x, d_y, activation, stored) + (coarse ? 0x1p-15 * std::abs(d_y) * tail : 0.0);
}

}  // namespace plimsoll
