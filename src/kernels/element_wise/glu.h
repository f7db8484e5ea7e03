// Gated linear units (Shazeer, arXiv:2002.05202): an activation of one half of a row times the other half. With SiLU it is SwiGLU, with
// GELU GeGLU. The header states the contracts of these kernels, which allocate no memory.
//
// Legend: T rows (the tokens of a batch, then unused tail rows), F columns of the result. A row of x has 2 F elements: the
// gate g and then u. gelu.h has the activations f.
//
//   y = f(g) u          d_g = d_y u f'(g)          d_u = d_y f(g)
//
// Types, threads, ownership, errors and repeatability are those of gelu.h. If F is not a multiple
// of the number of elements in 16 bytes, the halves of a row are not aligned, and the GPU kernels load single elements.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element_wise/gelu.h"

namespace plimsoll {

// Computes y = f(g) u. Aliasing: none. Scratch: none. Cost: about 41 FLOPs per element of y; 3 T F
// elements moved.
struct GluFwdArgs {
  ConstView x;  // input, the gate g and then u, shape [T, 2 F]
  View y;       // output, shape [T, F]
  int64_t T = 0;
  int64_t F = 0;
  Activation activation = Activation::kSilu;
};
void glu_fwd_ref(const GluFwdArgs& args);
void glu_fwd_cpu(const GluFwdArgs& args);
void glu_fwd_cuda(const GluFwdArgs& args, CudaStream stream);

// Computes d_x = [d_g | d_u]. For finite x, rows in which d_y is zero give zero. Aliasing: d_x may be x. Scratch: none.
// Cost: about 85 FLOPs per element of d_y; 5 T F elements moved.
struct GluBwdArgs {
  ConstView x;    // input of the forward pass, shape [T, 2 F]
  ConstView d_y;  // gradient of y, shape [T, F]
  View d_x;       // output, the gradient of x, shape [T, 2 F]
  int64_t T = 0;
  int64_t F = 0;
  Activation activation = Activation::kSilu;
};
void glu_bwd_ref(const GluBwdArgs& args);
void glu_bwd_cpu(const GluBwdArgs& args);
void glu_bwd_cuda(const GluBwdArgs& args, CudaStream stream);

// Returns the error bound of y and, with d_y instead of u, of d_u: the error of f(g) and the rounding of the product.
inline double glu_fwd_error_bound(double gate, double up, Activation activation, DType stored) {
  const double y = up * gelu_exact(gate, activation);
  return 1.01 * (std::abs(up) * gelu_fwd_error_bound(gate, activation, DType::kF32) +
                 kRoundoffF32 * std::abs(y)) +
         store_error_bound(stored, y) + 1e-37;
}
// Returns the error bound of d_g: the error of f'(g) and the roundings of two products.
inline double glu_bwd_error_bound(double gate, double up, double d_y, Activation activation, DType stored) {
  const double d_gate = d_y * up * gelu_slope_exact(gate, activation);
  return 1.01 * (gelu_bwd_error_bound(gate, d_y * up, activation, DType::kF32) +
                 2.0 * kRoundoffF32 * std::abs(d_gate)) +
         store_error_bound(stored, d_gate) + 1e-37;
}
// Return the error bounds of y and of d_g on a GPU, where GELU of 16-bit activations is less exact. `activations` is the type of x and d_y.
inline double glu_fwd_cuda_error_bound(double gate, double up, Activation activation, DType activations,
                                       DType stored) {
  const double coarse = gelu_fwd_cuda_error_bound(gate, activation, activations) -
                        gelu_fwd_error_bound(gate, activation, activations);
  return glu_fwd_error_bound(gate, up, activation, stored) + 1.01 * std::abs(up) * coarse;
}
inline double glu_bwd_cuda_error_bound(double gate, double up, double d_y, Activation activation,
                                       DType activations, DType stored) {
  const double coarse = gelu_bwd_cuda_error_bound(gate, d_y * up, activation, activations, DType::kF32) -
                        gelu_bwd_error_bound(gate, d_y * up, activation, DType::kF32);
  return glu_bwd_error_bound(gate, up, d_y, activation, stored) + 1.01 * coarse;
}

}  // namespace plimsoll
