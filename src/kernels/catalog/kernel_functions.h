// Lists of the functions that the rows of the kernel catalog name as implementations. The lists are made from the rows
// themselves, so that a new row needs no entry elsewhere. A file that includes the
// declarations of a family's kernels lists them in this way:
//
//   #define PLIMSOLL_ROWS "kernels/layer_norm/layer_norm_catalog.inc"
//   const KernelFunction kFunctions[] = {
//   #include "kernels/catalog/cpu_functions.inc"
//   };
//
// For a GPU, define PLIMSOLL_KERNEL as PLIMSOLL_CUDA_FUNCTION and PLIMSOLL_PREPARED_KERNEL as PLIMSOLL_NO_FUNCTION, and
// include the rows.
//
// A row whose function is not declared does not compile, and one whose function is not defined does not link. The
// declarations are written by hand, next to the contract of the kernel. Benchmarks do not use the lists. They name the
// functions that they measure, because each benchmark chooses the sizes and counts the bytes that its kernel must move.
// Thread-safe: values only.
#pragma once

#include <span>
#include <string_view>
#include <typeinfo>

#include "base/check.h"

// PLIMSOLL_KERNEL, the macro with which a catalog row is written, is defined as one of these macros. It then expands to the KernelFunction
// of the row if its implementation runs on this kind of device, and to nothing otherwise.
#define PLIMSOLL_CPU_FUNCTION(kernel, implementation, backend, ...) \
  PLIMSOLL_CPU_FUNCTION_##backend(implementation)
#define PLIMSOLL_CPU_FUNCTION_kRef(implementation) \
  ::plimsoll::KernelFunction(#implementation, implementation),
#define PLIMSOLL_CPU_FUNCTION_kCpu(implementation) \
  ::plimsoll::KernelFunction(#implementation, implementation),
#define PLIMSOLL_CPU_FUNCTION_kCuda(implementation)
#define PLIMSOLL_CUDA_FUNCTION(kernel, implementation, backend, ...) \
  PLIMSOLL_CUDA_FUNCTION_##backend(implementation)
#define PLIMSOLL_CUDA_FUNCTION_kRef(implementation)
#define PLIMSOLL_CUDA_FUNCTION_kCpu(implementation)
#define PLIMSOLL_CUDA_FUNCTION_kCuda(implementation) \
  ::plimsoll::KernelFunction(#implementation, implementation),
#define PLIMSOLL_NO_FUNCTION(...)

namespace plimsoll {

// A pointer to a kernel's function, whose type may be any function type, together with the name of the implementation.
class KernelFunction {
 public:
  template <typename Function>
  KernelFunction(std::string_view implementation, Function* function)
      : implementation_(implementation),
        type_(&typeid(Function)),
        function_(reinterpret_cast<void (*)()>(function)) {}

  std::string_view implementation() const { return implementation_; }
  const std::type_info& type() const { return *type_; }
  // Returns the pointer to the kernel function. Errors: kInternal if the type of the function is not Function.
  template <typename Function>
  Function* as() const {
    PLIMSOLL_CHECK(*type_ == typeid(Function),
                   "the function of the kernel {} has another type than its caller expects", implementation_);
    return reinterpret_cast<Function*>(function_);
  }

 private:
  std::string_view implementation_;
  const std::type_info* type_;
  void (*function_)();
};

// Returns the function of a catalog row, or null if the list does not contain it.
inline const KernelFunction* find_function(std::span<const KernelFunction> functions,
                                           std::string_view implementation) {
  for (const KernelFunction& function : functions) {
    if (function.implementation() == implementation) return &function;
  }
  return nullptr;
}

}  // namespace plimsoll
