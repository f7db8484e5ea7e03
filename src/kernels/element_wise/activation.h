// tanh and the rectifier, each with its gradient from its own output (so that the input need not be kept).
// Contracts; no graph, no allocation.
//
// Thread-safe: distinct calls may run at once on distinct outputs. Ownership: views borrow.
// _ref is plain loops in double and takes any floating type for each view; _cpu takes f32 or bf16 (all views
// of one type) and computes in fp32. Errors: kInternal if a view is absent or of another type. Scratch: none.
// Aliasing: the output may be any of the inputs. Repeatability: same bits on one instruction set, any number
// of threads.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// tanh: y = tanh(x); relu: y = max(x, 0), and NaN gives NaN.
//   Cost: tanh about 30 FLOPs an element, relu 1; 2n elements moved.
//   Error: tanh_fwd_error_bound; relu is exact.
struct ActivationFwdArgs {
  ConstView x;  // [n]
  View y;       // [n]
  int64_t n = 0;
};
void tanh_fwd_ref(const ActivationFwdArgs& args);
void tanh_fwd_cpu(const ActivationFwdArgs& args);
void relu_fwd_ref(const ActivationFwdArgs& args);
void relu_fwd_cpu(const ActivationFwdArgs& args);
inline double tanh_fwd_error_bound(double y, DType stored) {
  return 6.0 * kRoundoffF32 * std::abs(y) + store_error_bound(stored, y);
}

// From the output y of the forward pass. tanh: d_x = d_y * (1 - y^2); relu: d_x = d_y where y > 0, else 0.
//   Cost: tanh 3 FLOPs an element, relu 1; 3n elements moved.
//   Error: tanh_bwd_error_bound; relu is exact.
struct ActivationBwdArgs {
  ConstView y;    // [n]
  ConstView d_y;  // [n]
  View d_x;       // [n]
  int64_t n = 0;
};
void tanh_bwd_ref(const ActivationBwdArgs& args);
void tanh_bwd_cpu(const ActivationBwdArgs& args);
void relu_bwd_ref(const ActivationBwdArgs& args);
void relu_bwd_cpu(const ActivationBwdArgs& args);
inline double tanh_bwd_error_bound(double y, double d_y, DType stored) {
  return 3.0 * kRoundoffF32 * std::abs(d_y) + store_error_bound(stored, d_y * (1.0 - y * y));
}

}  // namespace plimsoll
