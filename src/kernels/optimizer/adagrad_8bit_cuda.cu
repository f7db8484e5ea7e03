#include "kernels/optimizer/adagrad_8bit.h"

#include "kernels/optimizer/cuda/adagrad_step.cuh"
#include "kernels/optimizer/cuda/eight_bit_update.cuh"

namespace plimsoll {

void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_8bit_cuda";
  cuda::launch_eight_bit<false, cuda::adagrad_step>(kKernel, args.tensors,
                                                    cuda::adagrad_scalars(kKernel, args), stream);
}

}  // namespace plimsoll
