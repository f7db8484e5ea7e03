#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {

void copy_cuda(const CopyArgs& args, CudaStream stream) {
  if (args.bytes == 0) return;
  // CUDA finds out from the two addresses which memories are the source and the destination.
  PLIMSOLL_CUDA(
      cudaMemcpyAsync(args.to, args.from, static_cast<size_t>(args.bytes), cudaMemcpyDefault, stream));
}

}  // namespace plimsoll
