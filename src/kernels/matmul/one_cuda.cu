#include <cuda_runtime.h>

#include "device/cuda/cuda_error.h"
#include "kernels/matmul/one_cuda.h"

namespace plimsoll {
namespace {
__device__ float kFactors[2] = {1.0f, 0.0f};
}

const void* one_on_device() {
  void* address = nullptr;
  PLIMSOLL_CUDA(cudaGetSymbolAddress(&address, kFactors));
  return address;
}

const void* zero_on_device() {
  return static_cast<const float*>(one_on_device()) + 1;
}

}  // namespace plimsoll
