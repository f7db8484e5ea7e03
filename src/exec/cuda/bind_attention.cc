#include "exec/cuda/bind_cuda.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {

std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "attention") {
    auto* run =
        context.kernel() == "attention_fwd_cuda_mma" ? attention_fwd_cuda_mma : attention_fwd_cuda_tiled;
    return given(stream, run, attention_fwd_args(context), rng_of(context));
  }
  if (name == "attention_bwd") {
    auto* run =
        context.kernel() == "attention_bwd_cuda_mma" ? attention_bwd_cuda_mma : attention_bwd_cuda_tiled;
    return given(stream, run, attention_bwd_args(context), rng_of(context));
  }
  return {};
}

}  // namespace plimsoll
