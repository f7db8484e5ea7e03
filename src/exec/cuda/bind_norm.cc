#include "exec/cuda/bind_cuda.h"
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"

namespace plimsoll {

std::function<void()> bind_norm_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "normalize") return given(stream, normalize_fwd_cuda, normalize_fwd_args(context));
  if (name == "normalize_bwd") return given(stream, normalize_bwd_cuda, normalize_bwd_args(context));
  if (name == "bias_dropout_residual_norm") {
    return given(stream, bias_dropout_residual_norm_fwd_cuda, fused_norm_fwd_args(context), rng_of(context));
  }
  if (name == "bias_dropout_residual_norm_bwd") {
    return given(stream, bias_dropout_residual_norm_bwd_cuda, fused_norm_bwd_args(context), rng_of(context),
                 accumulate_of(context));
  }
  return {};
}

}  // namespace plimsoll
