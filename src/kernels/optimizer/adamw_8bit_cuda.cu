#include "kernels/optimizer/adamw_8bit.h"

#include "kernels/optimizer/cuda/adamw_step.cuh"
#include "kernels/optimizer/cuda/eight_bit_update.cuh"

namespace plimsoll {

void adamw_8bit_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_8bit_cuda";
  cuda::launch_eight_bit<true, cuda::adamw_step>(kKernel, args.tensors, cuda::adamw_scalars(kKernel, args),
                                                 stream);
}

}  // namespace plimsoll
