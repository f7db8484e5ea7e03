#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "exec/ops/loss_ops.h"

namespace plimsoll {
namespace {

template <typename Args, typename Prepare>
std::function<void()> bind_chunks_cuda(const BindContext& context, const Args& args, Prepare prepare,
                                       CudaStream stream) {
  std::shared_ptr<CudaLossChunks<Args>> loss = prepare(linear_cross_entropy_problem(context));
  return [loss, args, flag = AccumulateFlag(context).on_device(), stream] { loss->run(args, flag, stream); };
}

}  // namespace

std::function<void()> bind_linear_cross_entropy_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_args(context), prepare_linear_cross_entropy_fwd_cuda,
                          stream);
}
std::function<void()> bind_linear_cross_entropy_bwd_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_bwd_args(context),
                          prepare_linear_cross_entropy_bwd_cuda, stream);
}
std::function<void()> bind_linear_cross_entropy_grad_cuda(const BindContext& context, CudaStream stream) {
  return bind_chunks_cuda(context, linear_cross_entropy_grad_args(context),
                          prepare_linear_cross_entropy_grad_cuda, stream);
}

}  // namespace plimsoll
