#include "kernels/optimizer/lion_8bit.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/lion_step.cuh"

namespace plimsoll {

void lion_8bit_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_8bit_cuda";
  cuda::launch_eight_bit<false, cuda::lion_step>(kKernel, args.tensors, cuda::lion_scalars(kKernel, args),
                                                 stream);
}

}  // namespace plimsoll
