#include "exec/cuda/bind_cuda.h"
#include "exec/update_args.h"
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/sgd.h"

namespace plimsoll {
namespace {

// Args borrow the list of tensors, which lives in the closure.
template <typename Args, typename Tensor>
std::function<void()> over_tensors(CudaStream stream, void (*run)(const Args&, CudaStream), Args args,
                                   std::vector<Tensor> tensors) {
  return [run, args, tensors = std::move(tensors), stream]() mutable {
    args.tensors = tensors;
    run(args, stream);
  };
}

}  // namespace

std::function<void()> bind_optimizer_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "global_norm") {
    return over_tensors(stream, global_norm_cuda, global_norm_args(context), norm_tensors(context));
  }
  if (name == "clip_coefficient") return given(stream, clip_coefficient_cuda, clip_coefficient_args(context));
  if (name == "adjust_loss_scale") {
    return given(stream, adjust_loss_scale_cuda, adjust_loss_scale_args(context));
  }
  if (name == "adamw") return over_tensors(stream, adamw_cuda, adamw_args(context), adamw_tensors(context));
  if (name == "sgd") return over_tensors(stream, sgd_cuda, sgd_args(context), sgd_tensors(context));
  if (name == "lion") return over_tensors(stream, lion_cuda, lion_args(context), one_state_tensors(context));
  if (name == "adagrad") {
    return over_tensors(stream, adagrad_cuda, adagrad_args(context), one_state_tensors(context));
  }
  if (name == "adafactor") {
    return over_tensors(stream, adafactor_cuda, adafactor_args(context), adafactor_tensors(context));
  }
  if (name == "adamw_8bit") {
    return over_tensors(stream, adamw_8bit_cuda, adamw_args(context), eight_bit_tensors(context));
  }
  if (name == "lion_8bit") {
    return over_tensors(stream, lion_8bit_cuda, lion_args(context), eight_bit_tensors(context));
  }
  if (name == "sgd_8bit") {
    return over_tensors(stream, sgd_8bit_cuda, sgd_args(context), eight_bit_tensors(context));
  }
  if (name == "adagrad_8bit") {
    return over_tensors(stream, adagrad_8bit_cuda, adagrad_args(context), eight_bit_tensors(context));
  }
  return {};
}

}  // namespace plimsoll
