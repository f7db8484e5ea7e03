#include "exec/cuda/bind_cuda.h"
#include "kernels/loss/bce_with_logits_cuda.h"
#include "kernels/loss/mse_cuda.h"
#include "kernels/loss/nll_cuda.h"
#include "kernels/loss/softmax_cross_entropy_cuda.h"
#include "kernels/loss/softmax_cuda.h"

namespace plimsoll {

std::function<void()> bind_loss_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  const ConstView real_rows = run_time_operands(context).real_rows;
  if (name == "softmax_cross_entropy") {
    return given(stream, softmax_cross_entropy_fwd_cuda, cross_entropy_fwd_args(context));
  }
  if (name == "softmax_cross_entropy_bwd") {
    return given(stream, softmax_cross_entropy_bwd_cuda, cross_entropy_bwd_args(context));
  }
  if (name == "nll") return given(stream, nll_fwd_cuda, nll_fwd_args(context));
  if (name == "nll_bwd") return given(stream, nll_bwd_cuda, nll_bwd_args(context));
  if (name == "log_softmax") return given(stream, log_softmax_fwd_cuda, log_softmax_fwd_args(context));
  if (name == "log_softmax_bwd") return given(stream, log_softmax_bwd_cuda, log_softmax_bwd_args(context));
  if (name == "bce_with_logits") {
    return given(stream, bce_with_logits_fwd_cuda, bce_fwd_args(context), real_rows);
  }
  if (name == "bce_with_logits_bwd") {
    return given(stream, bce_with_logits_bwd_cuda, bce_bwd_args(context), real_rows);
  }
  if (name == "mse") return given(stream, mse_fwd_cuda, mse_fwd_args(context), real_rows);
  if (name == "mse_bwd") return given(stream, mse_bwd_cuda, mse_bwd_args(context), real_rows);
  return {};
}

}  // namespace plimsoll
