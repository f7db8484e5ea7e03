#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {

void copy_cuda(const CopyArgs& args, CudaStream stream) {
  if (args.bytes == 0) return;
  // With cudaMemcpyDefault, CUDA finds out from each of the two addresses whether it is in host or in device memory.
  PLIMSOLL_CUDA(
      cudaMemcpyAsync(args.to, args.from, static_cast<size_t>(args.bytes), cudaMemcpyDefault, stream));
}

}  // namespace plimsoll
