#include "device/cuda/cuda_error.h"

#include "base/check.h"
#include "device/cuda/cuda_device.h"

namespace plimsoll {

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  // CUDA keeps the last error until somebody asks for it. Left there, it would be reported again as that of
  // the next launch, where a caller goes on with less memory, say.
  static_cast<void>(cudaGetLastError());
  std::string free_text;
  if (error == cudaErrorMemoryAllocation) {
    size_t free = 0;
    size_t total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
      free_text = fmt::format(" ({} of {} bytes are free)", free, total);
    }
  }
  if (error == cudaErrorNoKernelImageForDevice) {
    free_text =
        ". This program has no code for this GPU: configure it with -DPLIMSOLL_CUDA_ARCHITECTURES=RELEASE, "
        "or the "
        "card's own (80-real for compute capability 8.0), and build again";
  }
  throw GpuError(fmt::format("the GPU reports {} ({}) at {}, {}:{}{}", cudaGetErrorName(error),
                             cudaGetErrorString(error), call, file, line, free_text));
}

}  // namespace plimsoll
