#include "exec/cuda/bind_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/first_token_attention_cuda.h"

namespace plimsoll {
namespace {

using Forward = void(const AttentionFwdArgs&, const int64_t*, CudaStream);
using Backward = void(const AttentionBwdArgs&, const int64_t*, CudaStream);

Forward* forward_of(std::string_view kernel) {
  if (kernel == "attention_fwd_cuda_mma") return attention_fwd_cuda_mma;
  if (kernel == "attention_fwd_cuda_tf32") return attention_fwd_cuda_tf32;
  PLIMSOLL_CHECK(kernel == "attention_fwd_cuda_tiled", "no CUDA function for kernel '{}'", kernel);
  return attention_fwd_cuda_tiled;
}
Backward* backward_of(std::string_view kernel) {
  if (kernel == "attention_bwd_cuda_mma") return attention_bwd_cuda_mma;
  if (kernel == "attention_bwd_cuda_tf32") return attention_bwd_cuda_tf32;
  PLIMSOLL_CHECK(kernel == "attention_bwd_cuda_tiled", "no CUDA function for kernel '{}'", kernel);
  return attention_bwd_cuda_tiled;
}

}  // namespace

std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "attention") {
    return given(stream, forward_of(context.kernel()), attention_fwd_args(context), rng_of(context));
  }
  if (name == "attention_bwd") {
    return given(stream, backward_of(context.kernel()), attention_bwd_args(context), rng_of(context));
  }
  if (name == "first_token_attention") {
    return given(stream, first_token_attention_cuda, first_token_attention_args(context));
  }
  return {};
}

}  // namespace plimsoll
