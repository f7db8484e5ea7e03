#include "exec/cuda/bind_cuda.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"

namespace plimsoll {

namespace {

template <typename Args, typename Prepare>
std::function<void()> bind_loss_chunks(const BindContext& context, const Args& args, Prepare prepare,
                                       CudaStream stream) {
  std::shared_ptr<CudaLossChunks<Args>> loss = prepare(linear_cross_entropy_problem(context));
  return [loss, args, flag = accumulate_of(context), stream] { loss->run(args, flag, stream); };
}

std::function<void()> bind_linear_cross_entropy(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "linear_cross_entropy") {
    return bind_loss_chunks(context, linear_cross_entropy_fwd_args(context),
                            prepare_linear_cross_entropy_fwd_cuda, stream);
  }
  if (name == "linear_cross_entropy_bwd") {
    return bind_loss_chunks(context, linear_cross_entropy_bwd_args(context),
                            prepare_linear_cross_entropy_bwd_cuda, stream);
  }
  if (name == "linear_cross_entropy_grad") {
    return bind_loss_chunks(context, linear_cross_entropy_grad_args(context),
                            prepare_linear_cross_entropy_grad_cuda, stream);
  }
  return {};
}

}  // namespace

std::function<void()> bind_loss_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (auto run = bind_linear_cross_entropy(context, stream)) return run;
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
