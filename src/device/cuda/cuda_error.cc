#include "device/cuda/cuda_error.h"

#include "base/check.h"
#include "device/cuda/cuda_device.h"

namespace plimsoll {

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  // CUDA keeps the last error until it is read. If it stayed there, the next launch would report it again,
  // for example after a caller has continued with less memory.
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
