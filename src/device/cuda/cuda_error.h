// Error checks: PLIMSOLL_CUDA(call) for every call of the CUDA runtime, and PLIMSOLL_CHECK_LAUNCH for every
// launch. Only for sources that are built with CUDA. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll {

// Throws GpuError with the text of the call, CUDA's name and description of the failure, and the source
// position. For a failed allocation the message also contains the free memory that CUDA reports.
[[noreturn]] void fail_cuda(cudaError_t error, const char* call, const char* file, int line);

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error != cudaSuccess) [[unlikely]] {
    fail_cuda(error, call, file, line);
  }
}

}  // namespace plimsoll

#define PLIMSOLL_CUDA(call) ::plimsoll::check_cuda((call), #call, __FILE__, __LINE__)

// Throws GpuError if CUDA did not accept the launch of a kernel. It must follow each launch, as PLIMSOLL_CHECK_LAUNCH("gelu_fwd").
// Failures during the execution of the kernel are detected by the next synchronizing call.
#define PLIMSOLL_CHECK_LAUNCH(kernel) \
  ::plimsoll::check_cuda(cudaGetLastError(), "launch of " kernel, __FILE__, __LINE__)
