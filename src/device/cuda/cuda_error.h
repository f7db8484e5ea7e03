// Every call of the CUDA runtime is checked by PLIMSOLL_CUDA(call), every launch by check_launch(). Only for
// sources that are built with CUDA. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll {

// Throws GpuError with the call's text, CUDA's own name and words for the failure, and where it was
// made. Memory that is refused is one too, with CUDA's count of what is free in the message.
[[noreturn]] void fail_cuda(cudaError_t error, const char* call, const char* file, int line);

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error != cudaSuccess) [[unlikely]] {
    fail_cuda(error, call, file, line);
  }
}

}  // namespace plimsoll

#define PLIMSOLL_CUDA(call) ::plimsoll::check_cuda((call), #call, __FILE__, __LINE__)

// After a kernel's launch: PLIMSOLL_CHECK_LAUNCH("gelu_fwd"). It sees a launch that was refused; what fails
// while the kernel runs is seen by the next synchronising call.
#define PLIMSOLL_CHECK_LAUNCH(kernel) \
  ::plimsoll::check_cuda(cudaGetLastError(), "launch of " kernel, __FILE__, __LINE__)
