// Creates the calls of CUDA kernels, as call.h does for CPU kernels. Views refer to device memory, and a bound call only enqueues work on
// the stream.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"
#include "kernels/catalog/kernel_functions.h"

namespace plimsoll {

// The type of the functions of a CUDA kernel. Their parameters are the struct that the function
// kArgs returns, one pointer or view for each type in RunTime, and the stream.
template <auto kArgs, typename... RunTime>
using CudaCall = void(const decltype(kArgs(std::declval<const BindContext&>()))&,
                      decltype(std::declval<const RunTime&>().on_device())..., CudaStream);

// Returns the GPU function of an implementation in the kernel catalog. Errors: kInternal if it has none.
const KernelFunction& cuda_function(std::string_view implementation);

// Returns a launch of the kernel that the plan chose. The function kArgs makes the arguments that
// never change. Each type in RunTime passes the address of an operand that the kernel reads.
template <auto kArgs, typename... RunTime>
std::function<void()> bind_launch(const BindContext& context, CudaStream stream) {
  return [run = cuda_function(context.kernel()).as<CudaCall<kArgs, RunTime...>>(), args = kArgs(context),
          ... operands = RunTime(context), stream] { run(args, operands.on_device()..., stream); };
}

// Returns a launch as bind_launch() does, for a kernel that works on a list of tensors, which is stored in the call.
template <auto kArgs, auto kTensors>
std::function<void()> bind_tensors_launch(const BindContext& context, CudaStream stream) {
  return [run = cuda_function(context.kernel()).as<CudaCall<kArgs>>(), args = kArgs(context),
          tensors = kTensors(context), stream]() mutable {
    args.tensors = tensors;
    run(args, stream);
  };
}

// Calls that kernel families provide themselves (PLIMSOLL_OWN_BINDING in bindings.inc).
std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_gelu_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_norm_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_norm_linear_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_add_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_attention_bwd_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_class_sums_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_class_sums_bwd_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_class_sums_grad_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_class_sums_gradients_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_bwd_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_grad_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_linear_cross_entropy_with_gradients_cuda(const BindContext& context,
                                                                    CudaStream stream);
std::function<void()> bind_scaled_matmul_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_quantize_fp8_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_copy_cuda(const BindContext& context, CudaStream stream);

}  // namespace plimsoll
