// The libraries that the program opens at run time with dlopen(): the names under which it searches for those of NVIDIA, the files that the
// loader finds, and their functions. Thread-safe.
//
// The program searches for a library of NVIDIA under these names, in this order:
//
//   1. the soname alone, which the loader searches for in LD_LIBRARY_PATH and in the folders of the system;
//   2. the file of NVIDIA's wheel, if Plimsoll was installed by pip into the same site-packages;
//   3. the folder of the CUDA toolkit.
//
// A path that begins with $ORIGIN is relative to the file that contains this code; glibc expands it in dlopen(). The wheel
// contains the program as site-packages/plimsoll_train/bin/plimsoll, so site-packages is two folders above its folder.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <vector>

namespace plimsoll {

// A name under which a library was not found.
struct LibraryAttempt {
  std::string name;
  std::string error;  // error message of the dynamic loader
};

struct LibrarySearch {
  std::string file;                   // path of the library that was found; "" if there is none
  std::vector<LibraryAttempt> tried;  // the names that failed before one was found, in order
};

// Opens the library under the first of these names that the loader finds, and closes it again. Errors: none. Cost: that of dlopen(),
// some ms for a large library.
LibrarySearch search_library(std::span<const std::string> names);

// Returns the folders in which the loader searches for a name without a path, in order: LD_LIBRARY_PATH, the run path of the program, and
// the folders of the system. The cache of ldconfig, which the loader reads in addition, is not among them.
std::vector<std::string> loader_folders();

// Returns the names of cuBLASLt of CUDA 13. NVIDIA's wheel is `nvidia-cublas`.
std::vector<std::string> cublaslt_names();

// The driver of CUDA, which the CUDA runtime in the program opens.
inline constexpr const char* kCudaDriver = "libcuda.so.1";

// Returns the names of NCCL 2. NVIDIA's wheel is `nvidia-nccl-cu13`.
std::vector<std::string> nccl_names();

// Sets `function`, a pointer to a function of the type that the header of the library declares, to the function of this name. Returns
// false, and sets it to null, if the library has none; dlerror() then has the reason.
template <typename Function>
bool find_library_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace plimsoll
