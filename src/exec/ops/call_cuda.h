// The calls of CUDA kernels, as call.h. Views hold device memory, and a bound call only enqueues work on the stream.
#pragma once

#include <functional>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"

namespace plimsoll {

// Returns a launch of a CUDA kernel. kArgs makes the arguments; each of RunTime passes an operand in device memory.
template <auto kRun, auto kArgs, typename... RunTime>
std::function<void()> bind_launch(const BindContext& context, CudaStream stream) {
  return [args = kArgs(context), ... operands = RunTime(context), stream] {
    kRun(args, operands.on_device()..., stream);
  };
}

// Returns a launch like bind_launch() of a kernel that works on a list of tensors, which is stored in the call.
template <auto kRun, auto kArgs, auto kTensors>
std::function<void()> bind_tensors_launch(const BindContext& context, CudaStream stream) {
  return [args = kArgs(context), tensors = kTensors(context), stream]() mutable {
    args.tensors = tensors;
    kRun(args, stream);
  };
}

// Calls that the families write themselves (bindings.inc).
std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_gelu_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_norm_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_add_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_attention_bwd_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_first_token_attention_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_bwd_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_grad_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_with_gradients_cuda(const BindContext& context,
                                                                    CudaStream stream);
std::function<void()> bind_scaled_matmul_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_quantize_fp8_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_copy_cuda(const BindContext& context, CudaStream stream);

}  // namespace plimsoll
