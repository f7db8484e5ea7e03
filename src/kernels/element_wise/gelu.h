// The Gaussian error linear unit, alone and together with the bias in front of it. Contracts; no graph, no
// allocation.
//
//   gelu(x)  = x * Phi(x)             Phi: the normal distribution function
//   gelu'(x) = Phi(x) + x * phi(x)    phi: its density
// (Hendrycks and Gimpel, arXiv:1606.08415, section 2). The tanh form (same paper) takes S for Phi; it is what
// GPT-2's "gelu_new" computes:
//   S(x)     = 1 / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3)
//   gelu(x)  = x * S
//   gelu'(x) = S + x * S * (1 - S) * 2u'
//
// Legend: T rows (all rows of the bucket, tail rows included), C columns, row-major and dense.
// Thread-safe: distinct calls may run at once on distinct outputs. Ownership: views borrow.
// _ref is plain loops in double and takes any floating type for each view; _cpu takes f32 or bf16 activations
// (all of one type), computes in fp32, and f32 or bf16 bias. Errors: kInternal if a view is absent or of
// another type. Repeatability: same bits on one instruction set, whatever the number of threads. Infinities
// and NaN do not come out finite from the forward kernels; NaN gives NaN in the backward ones.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "kernels/element_wise/add.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

enum class GeluForm : uint8_t { kErf, kTanh };

// y = gelu(x).
//   Aliasing: y may be x. Scratch: none. Cost: about 40 FLOPs an element; 2n elements moved.
//   Error: gelu_fwd_error_bound.
struct GeluFwdArgs {
  ConstView x;  // [n]
  View y;       // [n]
  int64_t n = 0;
  GeluForm form = GeluForm::kErf;
};
void gelu_fwd_ref(const GeluFwdArgs& args);
void gelu_fwd_cpu(const GeluFwdArgs& args);

// d_x = d_y * gelu'(x).
//   Aliasing: d_x may be x or d_y. Scratch: none. Cost: about 45 FLOPs an element; 3n elements moved.
//   Error: gelu_bwd_error_bound.
struct GeluBwdArgs {
  ConstView x;    // [n]
  ConstView d_y;  // [n]
  View d_x;       // [n]
  int64_t n = 0;
  GeluForm form = GeluForm::kErf;
};
void gelu_bwd_ref(const GeluBwdArgs& args);
void gelu_bwd_cpu(const GeluBwdArgs& args);

// y[t, c] = gelu(h[t, c] + b[c]); the sum is not rounded to the activations' type.
//   Aliasing: y may be h. Scratch: none. Cost: about 41 FLOPs an element; 2*T*C + C elements moved.
//   Error: gelu_fwd_error_bound at h + b, plus 1.13 (the steepest slope) times fp32's rounding of the sum.
struct BiasGeluFwdArgs {
  ConstView h;  // [T, C]
  ConstView b;  // [C]
  View y;       // [T, C]
  int64_t T = 0;
  int64_t C = 0;
  GeluForm form = GeluForm::kErf;
};
void bias_gelu_fwd_ref(const BiasGeluFwdArgs& args);
void bias_gelu_fwd_cpu(const BiasGeluFwdArgs& args);

// d_h = d_y * gelu'(h + b); d_b[c] (+)= sum over t of d_h[t, c], of the values before they are rounded to
// d_h's type.
//   Accumulation: fp32, rows in order within a block of row_blocks(T, C), blocks in order. Rows where d_y is
//   zero give zero and contribute exactly nothing, for finite h. Aliasing: d_h may be h or d_y. Scratch:
//   bias_gelu_bwd_scratch_bytes (the reference needs none). Cost: about 47 FLOPs an element; 3*T*C + 2*C
//   elements moved, plus the scratch twice. Error: d_h: gelu_bwd_error_bound at h + b, plus |d_y| times
//   fp32's rounding of the sum (|gelu''| < 1); d_b: column_sum_error_bound.
struct BiasGeluBwdArgs {
  ConstView h;    // [T, C]
  ConstView b;    // [C]
  ConstView d_y;  // [T, C]
  View d_h;       // [T, C]
  View d_b;       // [C]
  View scratch;   // bias_gelu_bwd_scratch_bytes(T, C) bytes
  int64_t T = 0;
  int64_t C = 0;
  GeluForm form = GeluForm::kErf;
  Accumulate accumulate = Accumulate::kOverwrite;
};
void bias_gelu_bwd_ref(const BiasGeluBwdArgs& args);
void bias_gelu_bwd_cpu(const BiasGeluBwdArgs& args);
constexpr int64_t bias_gelu_bwd_scratch_bytes(int64_t T, int64_t C) {
  return column_sums_scratch_bytes(T, C, 1);
}

// The scalars behind the references.
double gelu_exact(double x, GeluForm form);
double gelu_slope_exact(double x, GeluForm form);
// |got - exact| of the fast kernels. The erf form computes what is small, z * Phi(-z) with z = |x|, with a
// relative error of (10 + 2.5 z^2) roundoffs, until it sinks below the smallest normal fp32; so near 0 and
// far in the negative tail the result has relative accuracy too. The tanh form's error is that of the
// exponent 2u, relative to 1 - gate.
double gelu_fwd_error_bound(double x, GeluForm form, DType stored);
// The two terms of the slope cancel where it is zero, so the error is relative to their magnitudes.
double gelu_bwd_error_bound(double x, double d_y, GeluForm form, DType stored);

}  // namespace plimsoll
