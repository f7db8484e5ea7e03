#include "kernels/loss/bce_with_logits.h"

#include "kernels/loss/cuda/element_loss.cuh"
#include "kernels/loss/mse.h"

namespace plimsoll {

namespace cuda {
namespace {

struct Bce {
  static constexpr double kFactor = 1.0;
  static __device__ double term(float x, float label) {
    // Computes max(x, 0) - x y by a fused operation, which rounds only once. For a confident, correct prediction the two terms then cancel
    // exactly.
    const float linear = fmaf(-x, label, x < 0.0f ? 0.0f : x);
    return static_cast<double>(linear + log1pf(expf(-fabsf(x))));
  }
  static __device__ float slope(float x, float label) {
    const float e = expf(-fabsf(x));
    const float sigmoid = (x >= 0.0f ? 1.0f : e) / (1.0f + e);
    return sigmoid - label;
  }
};

}  // namespace
}  // namespace cuda

void bce_with_logits_fwd_cuda(const BceWithLogitsFwdArgs& args, ConstView num_real_rows, CudaStream stream) {
  cuda::launch_element_loss_fwd<cuda::Bce>("bce_with_logits_fwd_cuda", args, num_real_rows, stream);
}

void bce_with_logits_bwd_cuda(const BceWithLogitsBwdArgs& args, ConstView num_real_rows, CudaStream stream) {
  cuda::launch_element_loss_bwd<cuda::Bce>("bce_with_logits_bwd_cuda", args, num_real_rows, stream);
}

namespace cuda {
namespace {

struct Mse {
  static constexpr double kFactor = 2.0;
  static __device__ double term(float x, float label) {
    const double difference = static_cast<double>(x) - static_cast<double>(label);
    return difference * difference;
  }
  static __device__ float slope(float x, float label) { return x - label; }
};

}  // namespace
}  // namespace cuda

void mse_fwd_cuda(const MseFwdArgs& args, ConstView num_real_rows, CudaStream stream) {
  cuda::launch_element_loss_fwd<cuda::Mse>("mse_fwd_cuda", args, num_real_rows, stream);
}

void mse_bwd_cuda(const MseBwdArgs& args, ConstView num_real_rows, CudaStream stream) {
  cuda::launch_element_loss_bwd<cuda::Mse>("mse_bwd_cuda", args, num_real_rows, stream);
}

}  // namespace plimsoll
