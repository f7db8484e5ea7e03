#include "kernels/optimizer/sgd_8bit.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/sgd_step.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// There is a momentum always, which the compiler then knows.
__device__ SgdStep sgd_8bit_step(const SgdScalars& scalars) {
  SgdStep step = sgd_step(scalars);
  step.has_buffer = true;
  return step;
}

}  // namespace
}  // namespace cuda

void sgd_8bit_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_8bit_cuda";
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD has a momentum, this one is {}", args.momentum);
  cuda::launch_eight_bit<false, cuda::sgd_8bit_step>(kKernel, args.tensors, cuda::sgd_scalars(kKernel, args),
                                                     stream);
}

}  // namespace plimsoll
