// Binds ops for an NVIDIA GPU, as bindings.h does for a CPU. Only for sources that are built with CUDA.
#pragma once

#include <functional>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"

namespace plimsoll {

// Binds one op. The bound function enqueues work on the stream. Errors: kInternal if the op has no binding.
std::function<void()> bind_cuda(const BindContext& context, CudaStream stream);

}  // namespace plimsoll
