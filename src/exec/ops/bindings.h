// The binding of an op is the code that calls its kernel, with addresses and sizes filled in. bindings.inc lists the bindings once for all
// devices. Thread-safe: pure functions.
#pragma once

#include <functional>
#include <span>
#include <typeinfo>
#include <vector>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"
#include "kernels/catalog/kernel_functions.h"

namespace plimsoll {

// Returns a function that runs an op on a CPU with its kernel, addresses and sizes. Errors: kInternal if bindings.inc does not list the op.
std::function<void()> bind_cpu(const BindContext& context);

struct ListedBinding {
  const OpSchema* op = nullptr;
  // The C++ type of the kernel functions that the binding calls; null for PLIMSOLL_OWN_BINDING, which uses code of the kernel family.
  const std::type_info* function = nullptr;
};
// Return the bindings that bindings.inc lists, with the types of the kernel functions that they call, for a CPU and for a GPU. The second
// list is empty in builds without CUDA.
std::vector<ListedBinding> listed_cpu_bindings();
std::vector<ListedBinding> listed_cuda_bindings();
// Return the functions of all kernels in the kernel catalog, for a CPU and for a GPU. The second list exists only in builds with CUDA.
std::span<const KernelFunction> cpu_functions();
std::span<const KernelFunction> cuda_functions();

// Prepares ops for running on an NVIDIA GPU, as bind_cpu() does for a CPU. Only for sources that are built with CUDA.

// Returns a function that enqueues the op on the stream. Errors: kInternal if bindings.inc does not list the op.
std::function<void()> bind_cuda(const BindContext& context, CudaStream stream);

}  // namespace plimsoll
