#include "exec/cuda/bind_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/first_token_attention.h"

namespace plimsoll {
std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "attention") {
    const AttentionFwdArgs args = attention_fwd_args(context);
    return given(stream, attention_fwd_cuda_of(context.kernel(), args.dims), args, rng_of(context));
  }
  if (name == "attention_bwd") {
    const AttentionBwdArgs args = attention_bwd_args(context);
    return given(stream, attention_bwd_cuda_of(context.kernel(), args.dims), args, rng_of(context));
  }
  if (name == "first_token_attention") {
    return given(stream, first_token_attention_cuda, first_token_attention_args(context));
  }
  return {};
}

}  // namespace plimsoll
