#include "exec/ops/attention_ops.h"
#include "exec/ops/call.h"
#include "exec/ops/call_cuda.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {

std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const AttentionFwdArgs args = attention_args(context);
  return [run = attention_fwd_cuda_of(context.kernel(), args.dims), args, random = RandomState(context),
          stream] { run(args, random.on_device(), stream); };
}
std::function<void()> bind_attention_bwd_cuda(const BindContext& context, CudaStream stream) {
  const AttentionBwdArgs args = attention_bwd_args(context);
  return [run = attention_bwd_cuda_of(context.kernel(), args.dims), args, random = RandomState(context),
          stream] { run(args, random.on_device(), stream); };
}
std::function<void()> bind_first_token_attention_cuda(const BindContext& context, CudaStream stream) {
  return bind_launch<first_token_attention_cuda, first_token_attention_args>(context, stream);
}

}  // namespace plimsoll
