// tanh and ReLU. Each gradient is computed from the output of the forward pass, so the input need not be kept. The header states the
// contracts of these kernels, which allocate no memory.
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. The _ref
// functions are plain loops in double and take any floating type for each view. The _cpu functions take f32 or bf16
// (one type for all views) and compute in fp32. Errors: kInternal if a view is absent or has an unsupported type.
// Scratch: none. Aliasing: the output may be any of the inputs. Repeatability: the same bits for any number of
// threads on one instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes tanh: y = tanh(x), or ReLU: y = max(x, 0). NaN gives NaN.
//   Cost: tanh about 30 FLOPs per element, relu 1; 2n elements moved.
//   Error: tanh_fwd_error_bound; relu is exact.
struct ActivationFwdArgs {
  ConstView x;  // input, shape [n]
  View y;       // output, shape [n]
  int64_t n = 0;
};
void tanh_fwd_ref(const ActivationFwdArgs& args);
void tanh_fwd_cpu(const ActivationFwdArgs& args);
void relu_fwd_ref(const ActivationFwdArgs& args);
void relu_fwd_cpu(const ActivationFwdArgs& args);
inline double tanh_fwd_error_bound(double y, DType stored) {
  return 6.0 * kRoundoffF32 * std::abs(y) + store_error_bound(stored, y);
}

// Computes the gradient from the output y of the forward pass. tanh: d_x = d_y * (1 - y^2). ReLU: d_x = d_y
// if y > 0, otherwise 0.
//   Cost: tanh 3 FLOPs per element, relu 1; 3n elements moved.
//   Error: tanh_bwd_error_bound; relu is exact.
struct ActivationBwdArgs {
  ConstView y;    // output of the forward pass, shape [n]
  ConstView d_y;  // gradient of y, shape [n]
  View d_x;       // output, the gradient of x, shape [n]
  int64_t n = 0;
};
void tanh_bwd_ref(const ActivationBwdArgs& args);
void tanh_bwd_cpu(const ActivationBwdArgs& args);
void relu_bwd_ref(const ActivationBwdArgs& args);
void relu_bwd_cpu(const ActivationBwdArgs& args);
inline double tanh_bwd_error_bound(double y, double d_y, DType stored) {
  return 3.0 * kRoundoffF32 * std::abs(d_y) + store_error_bound(stored, d_y * (1.0 - y * y));
}

// The functions below run on an NVIDIA GPU. add.h states the rules for all CUDA kernels. Errors against the
// reference: the bounds above.

void tanh_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream);
void tanh_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream);
void relu_fwd_cuda(const ActivationFwdArgs& args, CudaStream stream);
void relu_bwd_cuda(const ActivationBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
