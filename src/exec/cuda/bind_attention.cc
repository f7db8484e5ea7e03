#include "exec/cuda/bind_cuda.h"
#include "kernels/attention/attention_cuda.h"

namespace plimsoll {

std::function<void()> bind_attention_cuda(const BindContext& context, CudaStream stream) {
  const std::string_view name = context.op().def->name();
  if (name == "attention") {
    return [args = attention_fwd_args(context), rng = rng_of(context), stream,
            run = attention_fwd_cuda_tiled] { run(args, rng, stream); };
  }
  if (name == "attention_bwd") {
    return [args = attention_bwd_args(context), rng = rng_of(context), stream,
            run = attention_bwd_cuda_tiled] { run(args, rng, stream); };
  }
  return {};
}

}  // namespace plimsoll
