#include "exec/cuda/bind_cuda.h"
#include "kernels/optimizer/adamw_cuda.h"
#include "kernels/optimizer/global_norm_cuda.h"
#include "kernels/optimizer/loss_scale_cuda.h"
#include "kernels/optimizer/sgd_cuda.h"

namespace plimsoll {
namespace {

// Args borrow the list of tensors, which lives in the closure.
template <typename Args>
std::function<void()> over_tensors(CudaStream stream, void (*run)(const Args&, CudaStream), Args args,
                                   std::vector<OptimizerTensor> tensors) {
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
  return {};
}

}  // namespace plimsoll
