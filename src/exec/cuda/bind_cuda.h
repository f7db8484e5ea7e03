// Binders for an NVIDIA GPU: as bind_cpu of bound_op.h, but views hold device memory, what the CPU's binders
// read before a run is read by the kernels on the device, and the bound function only gives work to the
// stream, so that a segment can be captured and replayed.
#pragma once

#include <functional>

#include "device/cuda/stream.h"
#include "exec/bound_op.h"
#include "exec/kernel_args.h"

namespace plimsoll {

// Errors: kInternal for an op that has no binder.
std::function<void()> bind_cuda(const BindContext& context, CudaStream stream);

// By family, tried in turn; an empty function where the op is of another family.
std::function<void()> bind_matmul_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_embedding_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_element_wise_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_norm_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_loss_cuda(const BindContext& context, CudaStream stream);
std::function<void()> bind_optimizer_cuda(const BindContext& context, CudaStream stream);

// The flag that turns overwriting into adding, where the op has one; null overwrites.
inline const int32_t* accumulate_of(const BindContext& context) {
  const ConstView flag = run_time_operands(context).accumulate;
  return flag ? flag.as<int32_t>() : nullptr;
}
// Seed and number of the micro-batch in device memory; null without dropout.
inline const int64_t* rng_of(const BindContext& context) {
  const ConstView rng = run_time_operands(context).rng;
  return rng ? rng.as<int64_t>() : nullptr;
}

// run(args, operands..., stream), ready to be called.
template <typename Run, typename Args, typename... Operands>
std::function<void()> given(CudaStream stream, Run* run, const Args& args, Operands... operands) {
  return [=] { run(args, operands..., stream); };
}

}  // namespace plimsoll
