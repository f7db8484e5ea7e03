#include "kernels/loss/mse.h"

#include "kernels/loss/cuda/element_loss.cuh"

namespace plimsoll {
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
