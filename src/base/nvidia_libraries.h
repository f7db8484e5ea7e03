#pragma once

// The names under which the program searches for libraries of NVIDIA that it opens at run time, in this order:
//
//   1. the soname alone, which the loader searches for in LD_LIBRARY_PATH and in the folders of the system;
//   2. the file of NVIDIA's wheel, if Plimsoll was installed by pip into the same site-packages;
//   3. the folder of the CUDA toolkit.
//
// A path that begins with $ORIGIN is relative to the file that contains this code; glibc expands it in dlopen(). The wheel
// contains the program as site-packages/plimsoll_train/bin/plimsoll, so site-packages is two folders above its folder.
//
// This file opens nothing. All functions are pure and may be called from any thread.

#include <string>
#include <vector>

namespace plimsoll {

// Returns the names of cuBLASLt of CUDA 13. NVIDIA's wheel is `nvidia-cublas`.
std::vector<std::string> cublaslt_names();

// The driver of CUDA, which the CUDA runtime in the program opens.
inline constexpr const char* kCudaDriver = "libcuda.so.1";

// Returns the names of NCCL 2. NVIDIA's wheel is `nvidia-nccl-cu13`.
std::vector<std::string> nccl_names();

}  // namespace plimsoll
