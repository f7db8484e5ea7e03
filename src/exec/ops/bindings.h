// The bindings of ops to kernels. bindings.inc lists them once for all devices. Thread-safe: pure functions.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"

namespace plimsoll {

// Binds one op for the CPU. Errors: kInternal if the op has no binding.
std::function<void()> bind_cpu(const BindContext& context);

struct ListedBinding {
  const OpSchema* op = nullptr;
  std::string_view kernel = {};  // the stem of its kernels' names; empty if the family chooses the function
};
// Returns the rows of bindings.inc. Each is bound on a CPU and, in a build with CUDA, on a GPU.
std::span<const ListedBinding> listed_bindings();

// Binds ops for an NVIDIA GPU, as bind_cpu() does for a CPU. Only for sources that are built with CUDA.

// Binds one op. The bound function enqueues work on the stream. Errors: kInternal if the op has no binding.
std::function<void()> bind_cuda(const BindContext& context, CudaStream stream);

}  // namespace plimsoll
